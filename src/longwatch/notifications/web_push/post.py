"""Sends requests to push services. Redirects are not followed: a push service has no reason for one.

Endpoints come from browsers through the API, so anyone who may read could name one. They have to be https
URLs of public addresses; others, such as a push service in a private network, are allowed by the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPException
from ipaddress import ip_address
from urllib.error import URLError

from longwatch.errors import InvalidInput
from longwatch.executions.sources.dates import parse_retry_after
from longwatch.notifications.web_push.request import PushRequest
from longwatch.notifications.web_push.responses import PushOutcome, PushResult, parse_push_response
from longwatch.notifications.web_push.subscription import address_of
from longwatch.storage.http import post
from longwatch.storage.outgoing import ForbiddenAddress, OutgoingAddresses


def check_endpoint(endpoint: str, addresses: OutgoingAddresses) -> None:
    """Raise `InvalidInput` unless pushes may go to this URL, as far as is known without its address."""
    parts = address_of(endpoint)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        is_listed = False  # a name, which is resolved when something is sent
    else:
        if not addresses.allows(host):
            raise InvalidInput(
                f"The endpoint is at {host}, which is not a public address. Use the URL of a push service, "
                "or add the address to notifications.allow_addresses."
            )
        is_listed = not OutgoingAddresses(is_public_only=True).allows(host)
    if parts.scheme != "https" and not is_listed:
        raise InvalidInput("The endpoint is not an https URL.")


def poster(addresses: OutgoingAddresses) -> Callable[[PushRequest], PushResult]:
    """A function that sends a request and returns what became of it."""

    def send(request: PushRequest) -> PushResult:
        try:
            check_endpoint(request.url, addresses)
            response = post(request.url, request.headers, request.body, addresses=addresses)
        except InvalidInput as error:
            return PushResult(PushOutcome.REFUSED, str(error))
        except (OSError, HTTPException, ValueError) as error:
            return _failure(request, error)
        wait = parse_retry_after(response.headers["Retry-After"], date=response.headers["Date"])
        return parse_push_response(response.code, response.body, wait)

    return send


def _failure(request: PushRequest, error: Exception) -> PushResult:
    """The result without a response. The text names the host: the path of an endpoint is a secret."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ForbiddenAddress):
        return PushResult(PushOutcome.REFUSED, str(reason))
    host = address_of(request.url).netloc
    if isinstance(reason, ValueError):
        return PushResult(PushOutcome.REFUSED, f"{host}: invalid request")
    return PushResult(PushOutcome.LATER, f"{host} is unreachable ({reason})")
