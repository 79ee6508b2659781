"""Where in its partition an event may lie: the key of a run is made of milliseconds, and a place holds one.

The rule. Every event has one sequence of places, made from its time and its id alone: `occurred_at`, the
milliseconds after it one by one, then ever wider jumps that differ from event to event. It is put at the
first of them that is free, always on the condition that it is free, and a place is only passed by once the
store has said that another event holds it.

Why a retry stores nothing twice, whoever makes it and after whatever crash or timeout. Say an event was put,
or a put that nobody waited for still travels, to its k-th place. Then the places before it hold other events,
and will go on to: events are never deleted (an expired one may be, a day or more after). So every further
attempt fails at all of them, comes to the k-th, and there finds the event itself or stores it. Two puts of
one event can never both succeed. It follows that nothing needs to be remembered across a restart. What
`TakenPlaces` remembers only saves requests: once taken, a place stays taken.

The jumps are for bursts. Where hundreds of events share a millisecond, the next free one is hundreds of
requests away; a jump finds a free one in a handful, and several events can be on their way at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

NEXT_DOOR = 32  # milliseconds that are tried one by one
FIRST_SPAN_MS = 64  # how far the first jumps reach, and how they grow: twice as far every second one
LAST_SPAN_MS = 2**20  # about 17 minutes: room for a million events of one moment
MAX_PROBES = 1000
REMEMBERED_PLACES = 8_192

_MASK = 2**64 - 1


def places(occurred_at: int, name: str) -> Iterator[int]:
    """The places at which an event of this time and this id is looked for and put, in this order, always."""
    yield from range(occurred_at, occurred_at + NEXT_DOOR)
    state = int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
    span = FIRST_SPAN_MS
    for probe in range(MAX_PROBES - NEXT_DOOR):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & _MASK
        yield occurred_at + NEXT_DOOR + (state >> 33) % span
        if probe % 2:
            span = min(span * 2, LAST_SPAN_MS)


class TakenPlaces:
    """Places that are known to hold an event, and which. Bounded: the oldest knowledge goes first."""

    def __init__(self, most: int = REMEMBERED_PLACES) -> None:
        self._most = most
        self._holders: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def taken_by_another(self, run_id: str, place: int, event_id: str) -> bool:
        """Whether this place surely holds an event other than this one."""
        holder = self._holders.get((run_id, place))
        return holder is not None and holder != event_id

    def add(self, run_id: str, place: int, event_id: str) -> None:
        """Remember that this place holds this event."""
        with self._lock:
            self._holders[run_id, place] = event_id
            while len(self._holders) > self._most:
                self._holders.popitem(last=False)
