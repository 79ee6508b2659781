"""The Lambda function that finds executions which are due and dispatches each to a poller.

A rule calls it once a minute, the shortest interval of a rule. While something is open, it runs for that
minute and makes a pass whenever something becomes due, so that 15 seconds are 15 seconds; else it ends.

Two invocations may overlap, and one may die at any moment. Neither does harm: an execution that is dispatched
twice is polled once, because the poller checks its lease and its time again, and the next pass finds what was
not dispatched. So nothing is retried and nothing is locked.

Environment: LONGWATCH_EXECUTIONS is the URL of the executions, LONGWATCH_POLLER_FUNCTION the function
that polls, LONGWATCH_ENVIRONMENT a dimension of the metrics.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from longwatch.aws.metrics import tick_documents, write
from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidSettings, WorthAnotherTry
from longwatch.executions.compose import WatchingParts
from longwatch.executions.finder import Tick
from longwatch.executions.model import Execution, Mode
from longwatch.settings import load_settings
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session

EXECUTIONS_VARIABLE = "LONGWATCH_EXECUTIONS"
POLLER_VARIABLE = "LONGWATCH_POLLER_FUNCTION"
ENVIRONMENT_VARIABLE = "LONGWATCH_ENVIRONMENT"
DEFAULT_ENVIRONMENT = "production"

RUN_SECONDS = 59.0  # the rule's next call comes after 60
LAST_PASS_SECONDS = 10.0  # of the function's time, reserved for the last pass
PAUSE_SECONDS = 5.0  # after the table was unavailable
OPTIONS = ClientOptions(connect_seconds=2, read_seconds=5, attempts=3)

log = logging.getLogger(__name__)

Dispatch = Callable[[Execution], None]


class LambdaContext(Protocol):
    """The part of Lambda's context that is used here."""

    def get_remaining_time_in_millis(self) -> int: ...


@dataclass(slots=True)
class FinderTicks:
    """Counts the passes of one invocation, and writes their metrics."""

    environment: str
    seen: set[Mode] = field(default_factory=set)  # types that this container has reported
    clock: Clock = SYSTEM_CLOCK
    ticks: int = 0
    dispatched: int = 0
    failed: int = 0
    open: int = 0  # at the last pass

    def report(self, tick: Tick) -> None:
        self.ticks += 1
        self.dispatched += tick.dispatched
        self.failed += tick.failed
        self.open = tick.survey.open
        self.seen.update(tick.survey.modes)
        for line in tick_documents(tick, self.clock.now_ms(), self.environment, modes=sorted(self.seen)):
            write(line)

    def counts(self) -> dict[str, int]:
        return {
            "looks": self.ticks,
            "open": self.open,
            "handed_out": self.dispatched,
            "failed": self.failed,
        }


@dataclass(frozen=True, slots=True)
class Parts:
    """What a container keeps from one invocation to the next."""

    watching: WatchingParts
    dispatch: Dispatch
    environment: str
    seen: set[Mode]


def handler(event: object, context: LambdaContext | None = None) -> dict[str, int]:
    """The handler. Returns the number of passes and of dispatched executions."""
    parts = open_parts()
    return find(
        parts.watching,
        parts.dispatch,
        FinderTicks(parts.environment, parts.seen),
        seconds=run_seconds(context),
    )


def find(
    watching: WatchingParts, dispatch: Dispatch, ticks: FinderTicks, *, seconds: float = RUN_SECONDS
) -> dict[str, int]:
    """Dispatch what is due for so many seconds, and retry while the table is unavailable."""
    clock = ticks.clock
    finder = watching.finder(dispatch, on_tick=ticks.report)
    until = clock.monotonic() + seconds
    while True:
        try:
            finder.run(max(0.0, until - clock.monotonic()))
            return ticks.counts()
        except WorthAnotherTry as error:
            if clock.monotonic() + PAUSE_SECONDS > until:
                raise
            log.warning("executions cannot be read: %s", error)
            clock.sleep(PAUSE_SECONDS)


def run_seconds(context: LambdaContext | None) -> float:
    """How long to run: a minute, or less where the function's own time ends before that."""
    if context is None:
        return RUN_SECONDS
    left = context.get_remaining_time_in_millis() / 1000 - LAST_PASS_SECONDS
    return max(0.0, min(RUN_SECONDS, left))


@cache
def open_parts() -> Parts:
    """The table and the client of this container, from its environment."""
    settings = load_settings()
    name = os.environ.get(POLLER_VARIABLE)
    if not name:
        raise InvalidSettings([f"{POLLER_VARIABLE} is not set. Set it to the name of the poller function"])
    return Parts(
        watching=WatchingParts(settings, executions_url=os.environ.get(EXECUTIONS_VARIABLE)),
        dispatch=invoke_poller(lambda_client(), name),
        environment=os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ENVIRONMENT,
        seen=set(),
    )


def invoke_poller(client: Any, function: str) -> Dispatch:
    """Dispatch an execution by invoking the poller without waiting for it."""

    def dispatch(execution: Execution) -> None:
        client.invoke(
            FunctionName=function, InvocationType="Event", Payload=json.dumps(request(execution)).encode()
        )

    return dispatch


def request(execution: Execution) -> Mapping[str, str]:
    """The event for the poller. It reads the record itself: an index is only a hint."""
    return {"execution_id": execution.execution_id, "plan_id": execution.plan_id}


def lambda_client() -> Any:
    """A client with short timeouts: a call that hangs delays all others."""
    return make_client(new_session(core_session("Invoking the poller")), "lambda", options=OPTIONS)
