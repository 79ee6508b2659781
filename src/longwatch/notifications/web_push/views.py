"""Push subscriptions as the API returns them, without endpoints and keys of browsers. Times are epoch ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from longwatch.model.json_schema import STRICT, JsonSchema
from longwatch.notifications.rules import Rule
from longwatch.notifications.web_push.subscription import PushSubscription


@dataclass(frozen=True, kw_only=True)
class PushRuleView:
    """A rule that sends to browsers."""

    __pydantic_config__ = STRICT

    name: str
    triggers: Annotated[Sequence[str], JsonSchema("What it reacts to, such as `failed`.")]
    runs: Annotated[str, JsonSchema("The query that selects its runs; empty: every run.")]

    @classmethod
    def of(cls, rule: Rule) -> PushRuleView:
        return cls(name=rule.name, triggers=[each.value for each in rule.triggers], runs=rule.runs)


@dataclass(frozen=True, kw_only=True)
class PushConfiguration:
    """What a browser needs to subscribe."""

    __pydantic_config__ = STRICT

    public_key: Annotated[
        str | None, JsonSchema("The `applicationServerKey`; null if this server cannot notify browsers.")
    ]
    problem: Annotated[str | None, JsonSchema("Why it cannot, and what to do.")]
    rules: Annotated[Sequence[PushRuleView], JsonSchema("The rules that send to browsers.")]


@dataclass(frozen=True, kw_only=True)
class PushSubscriptionView:
    """One browser that receives notifications."""

    __pydantic_config__ = STRICT

    subscription_id: str
    browser: Annotated[str, JsonSchema("Such as `Firefox on Linux`; empty if it is unknown.")]
    page: Annotated[str, JsonSchema("Origin of the page that subscribed.")]
    service: Annotated[str, JsonSchema("Host of the push service.")]
    created_at: int
    renewed_at: Annotated[int, JsonSchema("When its page was last open.")]
    ends_at: Annotated[int, JsonSchema("When it ends unless its page is opened again.")]
    sent_at: Annotated[int | None, JsonSchema("The last attempt to send to it.")]
    problem: Annotated[str | None, JsonSchema("Why that attempt failed.")]

    @classmethod
    def of(cls, found: PushSubscription) -> PushSubscriptionView:
        return cls(
            subscription_id=found.subscription_id,
            browser=found.browser,
            page=found.page,
            service=found.service,
            created_at=found.created_at,
            renewed_at=found.renewed_at,
            ends_at=found.ends_at,
            sent_at=found.sent_at,
            problem=found.problem or None,
        )


@dataclass(frozen=True, kw_only=True)
class PushSubscriptionList:
    """The browsers that this caller may see, the oldest first."""

    __pydantic_config__ = STRICT

    subscriptions: Sequence[PushSubscriptionView]


@dataclass(frozen=True, kw_only=True)
class RemovedPushSubscription:
    """A browser that receives no more notifications."""

    __pydantic_config__ = STRICT

    subscription_id: str
