"""Creates boto3 sessions and clients. No other module does; a contract in pyproject.toml enforces it.

Every session is new. The default session, which a whole process shares, keeps its first credentials even
after the file that contained them was rewritten.

Timeouts, attempts and connections differ between callers on purpose, so each has its own `ClientOptions`: a
poll ends before its lease, a command waits for a table check, and no agent may be invoked twice.

`longwatch.testing.services` reads service models from botocore, without a client and so without this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longwatch.errors import MissingExtra

if TYPE_CHECKING:
    from botocore.config import Config
    from botocore.session import Session as CoreSession

# Messages of InvalidSignatureException when the clock is off by more than five minutes.
SKEWED_SIGNATURES = ("Signature expired:", "Signature not yet current:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Timeouts, attempts and connections of a client."""

    connect_seconds: float
    read_seconds: float
    attempts: int  # including the first; callers back off outside
    connections: int = 10  # boto3's own
    use_proxies: bool = True  # of the environment

    def config(self) -> Config:
        """These options as a botocore configuration."""
        from botocore.config import Config

        return Config(
            connect_timeout=self.connect_seconds,
            read_timeout=self.read_seconds,
            retries={"mode": "standard", "total_max_attempts": self.attempts},
            max_pool_connections=self.connections,
            proxies=None if self.use_proxies else {},
        )


def core_session(what: str) -> CoreSession:
    """A botocore session. Raises `MissingExtra` without boto3; `what` names the feature that needs it."""
    try:
        import boto3  # noqa: F401 - botocore alone creates no client
        from botocore.session import get_session
    except ImportError as error:
        raise MissingExtra(what, "aws") from error
    return get_session()


def new_session(core: CoreSession) -> Any:
    """The boto3 session of a botocore session. Create only one: each adds its handlers to the core."""
    import boto3

    return boto3.Session(botocore_session=core)


def role_session(role_arn: str, *, session_name: str, options: ClientOptions) -> Any:
    """A boto3 session with this role. It fetches credentials on first use and renews them before they expire:
    a container lives longer than the hour for which they are valid."""
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.session import get_session

    own, other = get_session(), get_session()
    own.set_default_client_config(options.config())  # an STS call that hangs must not use up a poll's time
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=own.create_client,
        source_credentials=own.get_credentials(),
        role_arn=role_arn,
        extra_args={"RoleSessionName": session_name},
    )
    renewed = DeferredRefreshableCredentials(method="assume-role", refresh_using=fetcher.fetch_credentials)
    other._credentials = renewed  # type: ignore[attr-defined]  # botocore has no setter for it
    return new_session(other)


def isolated_session(*, access_key: str, secret_key: str) -> Any:
    """A boto3 session with these keys that ignores the environment's profile and certificates."""
    from botocore.session import Session

    unset: Any = (None, None, None, None)
    core = Session(session_vars={"profile": unset, "ca_bundle": unset})
    core.set_credentials(access_key, secret_key)
    return new_session(core)


def make_client(
    session: Any,
    service: str,
    *,
    region: str | None = None,
    endpoint: str | None = None,
    options: ClientOptions | None = None,
) -> Any:
    """A client of this boto3 session. Without options, boto3's own configuration applies."""
    config = None if options is None else options.config()
    return session.client(service, region_name=region, endpoint_url=endpoint, config=config)
