"""Entity tags from content: the same on every server, weak because compression changes bytes."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from longwatch.runs import Run, RunSummary, conditions

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


def summary_tag(run: RunSummary, now_ms: int) -> str:
    """What a list tells of a run, except for the time that has passed."""
    return run_tag(Run(run), now_ms)


def run_tag(run: Run, now_ms: int) -> str:
    """The same of a whole run. An open run grows older, which is no change; that it fell silent is one."""
    # What is missing needs no part of its own: it differs only if the events do. So a summary is enough.
    summary = run.summary
    names = ",".join(condition.name for condition in conditions(Run(summary), now_ms))
    return weak_tag(
        summary.run_id,
        summary.status,
        summary.events,
        summary.last_order,
        summary.ended_at,
        summary.expired_before,
        summary.kind,
        summary.name,
        names,
    )


def list_tag(tags: Iterable[str], cursor: str | None) -> str:
    """The tag of a list of things that have tags of their own."""
    return weak_tag(*tags, cursor)
