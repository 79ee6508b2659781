"""The Lambda function that polls one execution.

The event has `execution_id` and `plan_id`. The function polls the source, writes the transitions into the
journal and then the record, and closes the execution when it has ended. A source that does not respond is not
a failure of the function: the record states the next poll. Only an unavailable table is one. Lambda does not
retry then: the finder dispatches the execution again once its lease has expired. The event goes to the
dead-letter queue, so that the failure is visible.

The function's timeout is shorter than a lease, so no other poller polls while it runs. If it dies, its lease
expires and another poller continues.

Environment: LONGWATCH_EXECUTIONS is the URL of the executions, LONGWATCH_JOURNAL that of the journal
which gets the transitions, LONGWATCH_ASSUME_ROLE the name of a role in other accounts, LONGWATCH_ENVIRONMENT
a dimension of the metrics. AWS_ENDPOINT_URL_DRS redirects calls, such as to a simulator.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Protocol

from longwatch.aws.finder import DEFAULT_ENVIRONMENT, ENVIRONMENT_VARIABLE, EXECUTIONS_VARIABLE
from longwatch.aws.metrics import failure_document, poll_document, write
from longwatch.aws.roles import account_clients
from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidInput
from longwatch.executions.compose import WatchingParts
from longwatch.executions.poller import Poller, PollReport
from longwatch.executions.sources.aws import AwsCaller
from longwatch.executions.sources.base import Source
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.sources.shipped import AWS
from longwatch.recording.redaction import redact_text
from longwatch.settings import load_settings

ROLE_VARIABLE = "LONGWATCH_ASSUME_ROLE"
# Past executions to learn from. Each is a query in a container's first poll, on a small share of a processor:
# a thousand would take more time than the function has, and 20 of a kind suffice.
EXECUTIONS_READ = 100


class PollerContext(Protocol):
    """The part of Lambda's context that is used here."""

    @property
    def invoked_function_arn(self) -> str: ...


def handler(event: Mapping[str, Any], context: PollerContext | None = None) -> dict[str, Any]:
    """The handler. Returns the result of the poll."""
    environment = os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ENVIRONMENT
    return poll(event, open_poller(own_account(context)), environment)


def poll(
    event: Mapping[str, Any], poller: Poller, environment: str, *, clock: Clock = SYSTEM_CLOCK
) -> dict[str, Any]:
    """Poll the execution that the event names, and print the metrics."""
    execution_id, plan_id = event.get("execution_id"), event.get("plan_id")
    try:
        if not isinstance(execution_id, str) or not execution_id:
            raise InvalidInput(f"Invalid event {event!r}. Send execution_id and plan_id")
        polled = poller.poll(execution_id, plan_id)
    except Exception as error:
        line = failure_document(
            error, clock.now_ms(), environment, execution_id=execution_id, plan_id=plan_id
        )
        write(line)
        raise
    write(poll_document(polled, clock.now_ms(), environment))
    return poll_summary(polled)


def poll_summary(polled: PollReport) -> dict[str, Any]:
    """The result as plain data, for manual invocations."""
    return {
        "execution_id": polled.execution.execution_id,
        "plan_id": polled.execution.plan_id,
        "result": polled.result.value,
        "status": polled.execution.status.value,
        "phase": polled.phase.value,
        "transitions": polled.appended,
        "problem": polled.problem.message if polled.problem else None,
    }


@cache
def open_poller(own: str | None = None) -> Poller:
    """The poller of this container, from its environment. Nothing is connected before the first poll."""
    stream = os.environ.get(
        "AWS_LAMBDA_LOG_STREAM_NAME", "poller"
    )  # names the log of the holder in the lease
    return WatchingParts(
        load_settings(),
        executions_url=os.environ.get(EXECUTIONS_VARIABLE),
        sources=sources(own),
        history_limit=EXECUTIONS_READ,
        holder=f"{stream}-{secrets.token_hex(4)}",
        redact=redact_text,
    ).poller


def sources(own: str | None = None) -> Mapping[str, Source]:
    """The sources of AWS.

    Processes are on other machines, and HTTP is left out: anyone who may write a record could make a function
    with permissions call any URL.
    """
    connect = account_clients(os.environ.get(ROLE_VARIABLE), own)
    declared = {
        name: DeclaredSource(declaration, AwsCaller(declaration, connect))
        for name, declaration in AWS.items()
    }
    return {"drs": DrsSource(partial(connect, "drs")), **declared}


def own_account(context: PollerContext | None) -> str | None:
    """The account of the function, which is in its ARN."""
    parts = context.invoked_function_arn.split(":") if context is not None else []
    return parts[4] if len(parts) > 4 else None
