"""Notifications: the state of rules and deliveries, and the browsers that are notified.

A subscription receives what its token may read. So the read scope suffices to subscribe; a reader sees and
removes the subscriptions of its own token only, a writer all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Header, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from longwatch.notifications.views import LISTED, NotificationStatus
from longwatch.notifications.web_push.subscription import (
    MAX_BROWSER_CHARACTERS,
    MAX_ENDPOINT_CHARACTERS,
    PushSubscription,
)
from longwatch.notifications.web_push.views import (
    PushConfiguration,
    PushSubscriptionList,
    PushSubscriptionView,
    RemovedPushSubscription,
)
from longwatch.server.access.tokens import TokenScope
from longwatch.server.api.openapi import json_responses, write_responses
from longwatch.server.api.parameters import ContextDep, PageLimit, RequestBody
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.page.plain_pages import NOT_STORED
from longwatch.server.responses import json_response

BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", ""), ("Chrome", ""), ("Safari", ""))
SYSTEMS = (
    *(("Android", ""), ("iPhone", ""), ("iPad", ""), ("Windows", ""), ("Mac OS", "macOS")),
    *(("CrOS", "ChromeOS"), ("Linux", "")),
)

router = APIRouter(prefix="/api/notifications", tags=["notifications"])


class PushKeys(RequestBody):
    """The keys of a browser, as base64url."""

    p256dh: Annotated[str, Field(min_length=1, max_length=200)]
    auth: Annotated[str, Field(min_length=1, max_length=100)]


class SubscribeRequest(RequestBody):
    """What `PushSubscription.toJSON()` returns in a browser."""

    endpoint: Annotated[str, Field(min_length=1, max_length=MAX_ENDPOINT_CHARACTERS)]
    keys: PushKeys
    expirationTime: Annotated[
        float | None, Field(description="Ignored: the push service reports when it has ended.")
    ] = None


SubscriptionId = Annotated[str, Path(description="The id of the subscription.", min_length=1, max_length=64)]


@router.get("", response_class=Response, responses=json_responses(NotificationStatus))
async def show_notifications(
    context: ContextDep, limit: Annotated[PageLimit, Query(description="Maximum of each list.")] = LISTED
) -> Response:
    """Show the rules, the queue, what was given up, and the last deliveries."""
    status = await context.call(NotificationStatus.of, context.push.rules, context.notifications, limit=limit)
    return json_response(status, headers=NOT_STORED)


@router.get("/push", response_class=Response, responses=json_responses(PushConfiguration))
async def show_push(context: ContextDep) -> Response:
    """Show what a browser needs to subscribe: the public key, and the rules that send to browsers."""
    return json_response(await context.call(context.push.configuration), headers=NOT_STORED)


@router.get("/subscriptions", response_class=Response, responses=json_responses(PushSubscriptionList))
async def list_subscriptions(context: ContextDep, request: Request) -> Response:
    """List the browsers that receive notifications: with the read scope, those of the same token."""
    found = await context.call(_visible, context, request)
    view = PushSubscriptionList(subscriptions=[PushSubscriptionView.of(each) for each in found])
    return json_response(view, headers=NOT_STORED)


@router.post(
    "/subscriptions",
    status_code=201,
    response_class=Response,
    responses=write_responses(PushSubscriptionView, 409, status=201),
)
async def subscribe(
    context: ContextDep,
    request: Request,
    given: Annotated[SubscribeRequest, Body()],
    user_agent: Annotated[str, Header(description="Names the browser in the list.")] = "",
) -> Response:
    """Add or renew a browser. It receives notifications until 30 days after its last renewal."""
    now = context.clock.now_ms()
    subscription = PushSubscription(
        endpoint=given.endpoint,
        p256dh=given.keys.p256dh.rstrip("="),
        auth=given.keys.auth.rstrip("="),
        page=page_of(request),
        created_at=now,
        renewed_at=now,
        grant=context.access.grant_of(request.headers.raw),
        browser=browser_of(user_agent),
    )
    stored = await context.call(context.push.subscribe, subscription)
    return json_response(PushSubscriptionView.of(stored), status=201, headers=NOT_STORED)


@router.delete(
    "/subscriptions/{subscription_id}",
    response_class=Response,
    responses=write_responses(RemovedPushSubscription, 404),
)
async def unsubscribe(context: ContextDep, request: Request, subscription_id: SubscriptionId) -> Response:
    """Remove a browser: it receives no more notifications."""
    visible = await context.call(_visible, context, request)
    if subscription_id not in {each.subscription_id for each in visible}:
        raise ApiError(
            404,
            "subscription_not_found",
            "No such subscription of this token. GET /api/notifications/subscriptions lists them.",
        )
    await context.call(context.push.store.remove, subscription_id)
    return json_response(RemovedPushSubscription(subscription_id=subscription_id), headers=NOT_STORED)


def _visible(context: ServerContext, request: Request) -> Sequence[PushSubscription]:
    """The subscriptions that this caller may see and remove. Blocks the calling thread."""
    found = context.push.store.subscriptions()
    if context.access.scope_of(request.headers.raw) is TokenScope.WRITE:
        return found
    grant = context.access.grant_of(request.headers.raw)
    return [each for each in found if each.grant == grant]


def page_of(request: Request) -> str:
    """The origin of the page that sent the request, which the guard has checked."""
    origin = request.headers.get("origin", "")
    return origin if "://" in origin else f"{request.url.scheme}://{request.url.netloc}"


def browser_of(user_agent: str) -> str:
    """`Firefox on Linux`, as far as the header reveals it."""
    browser = next((name or word for word, name in BROWSERS if f"{word}/" in user_agent), "")
    system = next((name or word for word, name in SYSTEMS if word in user_agent), "")
    return " on ".join(filter(None, (browser, system)))[:MAX_BROWSER_CHARACTERS]
