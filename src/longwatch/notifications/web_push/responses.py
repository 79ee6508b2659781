"""What the response of a push service means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_REASON = 120  # characters of a response that a problem quotes
GONE = frozenset({404, 410})
LATER = frozenset({408, 425, 429})
NOT_ALLOWED = frozenset({401, 403})


class PushOutcome(StrEnum):
    """What became of one push."""

    DELIVERED = "delivered"  # the push service accepted it; the browser may be offline
    GONE = "gone"  # the browser unsubscribed, or the subscription expired
    LATER = "later"  # worth another try
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PushResult:
    """The result of one push."""

    outcome: PushOutcome
    problem: str = ""
    retry_after_seconds: float | None = None


def parse_push_response(code: int, body: bytes = b"", retry_after: float | None = None) -> PushResult:
    """The result by the status of the response, as RFC 8030 defines it."""
    if 200 <= code < 300:
        return PushResult(PushOutcome.DELIVERED)
    if code in GONE:
        return PushResult(PushOutcome.GONE, f"HTTP {code}: the subscription has ended")
    problem = f"HTTP {code}{_reason(body)}"
    if code in LATER or code >= 500:
        return PushResult(PushOutcome.LATER, problem, retry_after)
    if code in NOT_ALLOWED:
        problem += ". Set contact in the rule to a mail address or page of yours, or subscribe again"
    return PushResult(PushOutcome.REFUSED, problem)


def _reason(body: bytes) -> str:
    text = " ".join(body[: 4 * MAX_REASON].decode(errors="replace").split())
    text = "".join(each if each.isprintable() else "?" for each in text)[:MAX_REASON]
    return f" ({text})" if text else ""
