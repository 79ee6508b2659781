"""Several questions at once, for systems that take one id at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 8  # one endpoint that hangs must not hold up the others, and no service be flooded

Answer = TypeVar("Answer")


def side_by_side(ask: Callable[[str], Answer], ids: Sequence[str]) -> dict[str, Answer]:
    """What is said about each id, in the time of the slowest few."""
    if len(ids) < 2:
        return {each: ask(each) for each in ids}
    with ThreadPoolExecutor(min(AT_ONCE, len(ids)), thread_name_prefix="longwatch-source") as pool:
        return dict(zip(ids, pool.map(ask, ids), strict=True))
