"""Where in its partition an event may lie: the key of a run is made of milliseconds, and a place holds one.

The rule. Every event has one sequence of places, made from the event alone. One that a recorder wrote begins
at the slot in its id, which no other event of its producer has. Any other begins at `occurred_at` and tries
the milliseconds after it one by one. Then both go on with jumps that differ from event to event, each drawn
from a span twice as wide as the one before. The event is put at the first of these places that is free,
always on the condition that it is free, and a place is only passed by once the store has said that another
event holds it.

Why a retry stores nothing twice, whichever process makes it and after whatever crash or timeout. Say an
event was put, or a put that timed out still travels, to its k-th place. Then the places before it hold other
events, and keep them: events are never deleted (an expired one may be, a day or more after). So every
further attempt fails at all of them, comes to the k-th, and there finds the event itself or stores it. Two
puts of one event can never both succeed. It follows that nothing needs to be remembered across a restart.
What `TakenPlaces` remembers only saves requests: once taken, a place stays taken.

Why slots and jumps. An event that may have to pass a place meant for another event of the same batch waits
for the answer to that one. Events with slots of their own never do, so all puts of a recorder fly in
parallel, and their places keep its order. Where producers collide, or a burst of other events shares a
millisecond, a jump finds a free place in a few requests.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain

from longwatch.model.event import Event, slot_of

NEXT_DOOR = 16  # milliseconds that an event without a slot tries one by one
FIRST_SPAN_MS = 16  # how far the first jump reaches
LAST_SPAN_MS = 2**20  # about 17 minutes: room for a million events of one moment
MAX_PROBES = 1000
REMEMBERED_PLACES = 8_192

_MASK = 2**64 - 1


def places_of(event: Event) -> Iterator[int]:
    """The places at which this event is looked for and put, in this order, always."""
    slot = slot_of(event)
    if slot is None:
        return places(event.occurred_at, event.event_id)
    return chain([slot], _jumps(slot + 1, event.event_id, MAX_PROBES - 1))


def places(at: int, name: str) -> Iterator[int]:
    """The places of something without a slot, such as an entry in the list of runs."""
    return chain(range(at, at + NEXT_DOOR), _jumps(at + NEXT_DOOR, name, MAX_PROBES - NEXT_DOOR))


def _jumps(first: int, name: str, count: int) -> Iterator[int]:
    state = int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
    span = FIRST_SPAN_MS
    for _ in range(count):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & _MASK
        yield first + (state >> 33) % span
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
