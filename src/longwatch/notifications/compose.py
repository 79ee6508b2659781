"""Wires a notifier from the settings, and runs it: for the server, the command line and Lambda."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.factory import open_executions
from longwatch.journal.base import Arrivals, Journal
from longwatch.notifications.channels.base import ChannelContext, ChannelKind
from longwatch.notifications.channels.registry import CHANNELS
from longwatch.notifications.notifier import Notifier
from longwatch.notifications.rules import rules_of
from longwatch.notifications.stores.factory import open_notifications
from longwatch.settings import Settings

PASS_SECONDS = 2.0  # between two passes on a journal that numbers arrivals
TABLE_PASS_SECONDS = 15.0  # elsewhere a pass lists runs
STOP_SECONDS = 1.0  # that the end of a process waits for a pass; what it was doing is done by the next one
LAST_SECONDS = 60.0  # the same for a command that has to send what happened at its end

log = logging.getLogger("longwatch.notifications")


@contextmanager
def open_notifier(
    settings: Settings,
    journal: Journal,
    *,
    executions: ExecutionStore | None = None,  # None: the one beside the journal
    kinds: Mapping[str, ChannelKind] = CHANNELS,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Notifier]:
    """The notifier of these settings. Raises `InvalidSettings` with every mistake in the rules."""
    rules = rules_of(settings, kinds)
    with ExitStack() as opened:
        store = open_notifications(settings, clock=clock)
        opened.callback(store.close)
        if executions is None:
            executions = open_executions(settings=settings, clock=clock)
            opened.callback(executions.close)
        yield Notifier(
            rules,
            journal,
            store,
            kinds=kinds,
            context=ChannelContext(settings=settings, clock=clock),
            executions=executions,
            clock=clock,
        )


def pass_seconds(journal: Journal) -> float:
    """How long to wait between two passes."""
    return PASS_SECONDS if isinstance(journal, Arrivals) else TABLE_PASS_SECONDS


def run_passes(notifier: Notifier, stop: threading.Event, every_seconds: float) -> None:
    """Make passes until `stop` is set."""
    while not stop.is_set():
        try:
            notifier.run_once()
        except Exception:  # nothing else restarts the notifier
            log.exception("notifications failed, trying again in %g s", every_seconds)
        stop.wait(every_seconds)


@contextmanager
def notifying(
    settings: Settings,
    journal: Journal,
    *,
    executions: ExecutionStore | None = None,
    at_end: bool = False,  # make one more pass after the block, unless it raises
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Notifier | None]:
    """Notify in a thread while the block runs; without rules there is neither a thread nor a store."""
    if not settings.notify:
        yield None
        return
    with open_notifier(settings, journal, executions=executions, clock=clock) as notifier:
        stop = threading.Event()
        thread = threading.Thread(
            target=run_passes,
            args=(notifier, stop, pass_seconds(journal)),
            name="longwatch-notifier",
            daemon=True,
        )
        thread.start()
        try:
            yield notifier
        finally:
            stop.set()
            thread.join(STOP_SECONDS)
        if at_end:
            thread.join(LAST_SECONDS)  # a message may be on its way
            if not thread.is_alive():
                notifier.run_once()
