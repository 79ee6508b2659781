"""Entity tags from content: the same on every server, weak because compression changes bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from longwatch.model.run import Condition, Run, RunSummary, conditions

TAG_BYTES = 12


def weak_tag(*parts: object) -> str:
    """A tag that is the same exactly if all parts are."""
    text = "\0".join(map(str, parts))
    return f'W/"{blake2b(text.encode(errors="surrogatepass"), digest_size=TAG_BYTES).hexdigest()}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether the caller has this already. Compared weakly, as RFC 9110 has it for GET."""
    if not if_none_match:
        return False
    if if_none_match == tag:
        return True
    bare = tag.removeprefix("W/")
    return any(
        each == "*" or each.removeprefix("W/") == bare for each in map(str.strip, if_none_match.split(","))
    )


def run_tag(summary: RunSummary, now_ms: int, observed: Sequence[Condition] = ()) -> str:
    """A tag for a run, in a list or whole. An open run grows older, which is no change; that it fell silent,
    that its process is gone or that its interval became narrower is one.
    """
    # What is missing needs no part of its own: it differs only if the events do. So a summary is enough.
    found = conditions(Run(summary), now_ms, observed=observed)
    names = ",".join(each.name if each.name == "silent" else each.message for each in found)
    return weak_tag(
        summary.run_id,
        summary.status,
        summary.events,
        summary.last_order,
        summary.ended_at,
        summary.ended_between,
        len(summary.attempts),
        summary.expired_before,
        summary.kind,
        summary.name,
        names,
    )


def list_tag(tags: Iterable[str], cursor: str | None) -> str:
    """The tag of a list of things that have tags of their own."""
    return weak_tag(*tags, cursor)
