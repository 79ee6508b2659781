"""The composition root of executions: it wires store, journal, sources, cadence, poller, finder and watcher.

The CLI, the Lambda functions and the demo compose here, so that a setting means the same in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import cached_property

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.cadence.history import EXECUTIONS_READ, LazyHistory
from longwatch.executions.cadence.learned import QUICKEST
from longwatch.executions.finder import SHORTEST_SECONDS, Finder, Tick
from longwatch.executions.model import Execution
from longwatch.executions.poller import OnPoll, Poller
from longwatch.executions.sources.base import Source
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.factory import open_executions
from longwatch.executions.watcher import Watcher
from longwatch.journal.base import ClosesOnExit, Journal
from longwatch.journal.factory import open_journal
from longwatch.settings import Settings


class WatchingParts(ClosesOnExit):
    """What one process watches executions with. Each part is opened when it is first used.

    `close` closes what was opened here; a store, a journal or sources that are passed in stay the caller's.
    `learned` overrides the setting `learned_cadence`; the history behind it is read when a poll first needs
    it, because by then the poller holds its lease. `holder` names the poller in its leases. `redact` removes
    secrets from a text of a source before it is stored.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        executions_url: str | None = None,  # None: beside the journal
        store: ExecutionStore | None = None,
        journal: Journal | None = None,
        sources: Mapping[str, Source] | None = None,  # None: all of the registry
        learned: bool | None = None,
        history_limit: int = EXECUTIONS_READ,
        holder: str | None = None,
        on_poll: OnPoll | None = None,
        redact: Callable[[str], str] = str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.is_learned = settings.learned_cadence if learned is None else learned
        self._settings = settings
        self._executions_url = executions_url
        self._given_store, self._given_journal, self._given_sources = store, journal, sources
        self._history_limit = history_limit
        self._holder = holder
        self._on_poll = on_poll
        self._redact = redact
        self._clock = clock
        self._opened = ExitStack()

    @cached_property
    def store(self) -> ExecutionStore:
        if self._given_store is not None:
            return self._given_store
        store = open_executions(self._executions_url, settings=self._settings, clock=self._clock)
        self._opened.callback(store.close)
        return store

    @cached_property
    def journal(self) -> Journal:
        if self._given_journal is not None:
            return self._given_journal
        return self._opened.enter_context(open_journal(settings=self._settings, clock=self._clock))

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        if self._given_sources is not None:
            return self._given_sources
        # Functions on AWS bring their own sources, and start sooner without the registry.
        from longwatch.executions.sources.registry import sources

        registry = sources(self._settings, clock=self._clock)
        self._opened.callback(registry.close)
        return registry

    @cached_property
    def cadence(self) -> LearnedCadence | None:
        """When to poll by the durations of past executions; None: by the fixed phases."""
        if not self.is_learned:
            return None
        return LearnedCadence(LazyHistory(self.journal, most=self._history_limit))

    @cached_property
    def poller(self) -> Poller:
        return Poller(
            self.store,
            self.journal,
            self.sources,
            clock=self._clock,
            holder=self._holder,
            report=self._on_poll,
            cadence=self.cadence,
            ttl_hours=self._settings.ttl_hours,
            redact=self._redact,
        )

    def finder(
        self, dispatch: Callable[[Execution], None], *, on_tick: Callable[[Tick], None] | None = None
    ) -> Finder:
        """A finder that dispatches due executions to other pollers. It needs neither journal nor sources."""
        # Pollers with a learned cadence may poll sooner than the shortest phase.
        shortest_seconds = SHORTEST_SECONDS * (QUICKEST if self.is_learned else 1)
        return Finder(
            self.store, dispatch, clock=self._clock, report=on_tick, shortest_seconds=shortest_seconds
        )

    def watcher(
        self,
        *,
        on_tick: Callable[[Collection[Execution]], None] | None = None,
        skipped: Collection[str] = (),
    ) -> Watcher:
        """Finder and poller in one process, without the sources that are `skipped`."""
        return Watcher(self.store, self.poller, clock=self._clock, on_tick=on_tick, skipped=skipped)

    def close(self) -> None:
        """Close what was opened here."""
        self._opened.close()
