"""The sort keys at which an event may be stored: a run's keys are milliseconds, and each holds one event.

The rule: every event has one sequence of keys, derived from the event alone. For an event of a recorder it
starts with the slot in its ID, which no other event of its producer has. For any other event it starts at
`occurred_at` and continues with the following milliseconds. Both continue with jumps that differ from event
to event, each drawn from a span twice as wide as the previous one. The event is put under the first of these
keys that is free, always on the condition that it is free. A key is skipped only once the table has reported
another event under it.

Why a retry never stores an event twice, in any process and after any crash or timeout: suppose a put of the
event reached its k-th key, or is still on its way there. Then the keys before it hold other events and keep
them: events are never deleted (an expired one may be, a day or more later, and those of a deleted run, which
no reader returns). Every further attempt fails at all of those keys, reaches the k-th and finds the event
there or stores it. Two puts of one event never both succeed, so nothing has to survive a restart.
`OccupiedKeys` only saves requests: an occupied key stays occupied.

Why slots and jumps: an event that may have to skip the key of another event in the same batch waits for the
response to that one. Events with slots never do, so all puts of a recorder run in parallel, and their keys
keep its order. Where producers collide, or a burst of other events shares a millisecond, a jump finds a free
key in a few requests.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain

from longwatch.model.event import Event, slot_of

ADJACENT_KEYS = 16  # milliseconds that an event without a slot tries one by one
FIRST_SPAN_MS = 16  # span of the first jump
LAST_SPAN_MS = 2**20  # about 17 minutes: a million events of one moment fit
MAX_PROBES = 1000
CACHED_KEYS = 8_192

_MASK = 2**64 - 1


def keys_of(event: Event) -> Iterator[int]:
    """The keys for this event in the order of attempts, always the same."""
    slot = slot_of(event)
    if slot is None:
        return keys_from(event.occurred_at, event.event_id)
    return chain([slot], _jumps(slot + 1, event.event_id, MAX_PROBES - 1))


def keys_from(at: int, name: str) -> Iterator[int]:
    """The keys for an item without a slot, such as an entry in the list of runs."""
    return chain(range(at, at + ADJACENT_KEYS), _jumps(at + ADJACENT_KEYS, name, MAX_PROBES - ADJACENT_KEYS))


def _jumps(first: int, name: str, count: int) -> Iterator[int]:
    state = int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
    span = FIRST_SPAN_MS
    for _ in range(count):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & _MASK
        yield first + (state >> 33) % span
        span = min(span * 2, LAST_SPAN_MS)


class OccupiedKeys:
    """A bounded cache of keys that hold an event, and which."""

    def __init__(self, max_keys: int = CACHED_KEYS) -> None:
        self._max_keys = max_keys
        self._holders: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def is_taken_by_another(self, run_id: str, key_ms: int, event_id: str) -> bool:
        """Whether the cache has another event under this key."""
        holder = self._holders.get((run_id, key_ms))
        return holder is not None and holder != event_id

    def add(self, run_id: str, key_ms: int, event_id: str) -> None:
        with self._lock:
            self._holders[run_id, key_ms] = event_id
            while len(self._holders) > self._max_keys:
                self._holders.popitem(last=False)
