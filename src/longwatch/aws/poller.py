"""The Lambda function that polls one execution.

It is called with `execution_id` and `plan_id`, asks the source, writes the transitions into the journal and
then the record, and ends what has ended. A source that does not answer is no failure of the function: the
record says when to ask again. Only a table that does not answer is one. Lambda then tries nothing again: the
finder hands the execution out anew once its lease has ended. The request goes to the dead-letter queue, so
that it is not silent.

The function's timeout is shorter than a lease, so nobody asks while it still runs. If it dies, its lease ends
and the work moves on.

Environment: LONGWATCH_EXECUTIONS is the address of the executions, LONGWATCH_JOURNAL that of the journal
which gets the transitions, LONGWATCH_ASSUME_ROLE the name of a role in other accounts, LONGWATCH_ENVIRONMENT
a dimension of the metrics. AWS_ENDPOINT_URL_DRS sends the questions elsewhere, such as to a simulator.
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
# Of the past: each is a query in a container's first poll, with a small share of a processor, and a thousand
# would take more time than the function has. A kind is learned from 20.
EXECUTIONS_READ = 100


class PollerContext(Protocol):
    """What Lambda says of an invocation, as far as it is of interest."""

    @property
    def invoked_function_arn(self) -> str: ...


def handler(event: Mapping[str, Any], context: PollerContext | None = None) -> dict[str, Any]:
    """What Lambda calls. Returns what the poll came to."""
    environment = os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_ENVIRONMENT
    return poll(event, open_poller(own_account(context)), environment)


def poll(
    event: Mapping[str, Any], poller: Poller, environment: str, *, clock: Clock = SYSTEM_CLOCK
) -> dict[str, Any]:
    """Poll the execution that the event names, and print the metrics."""
    execution_id, plan_id = event.get("execution_id"), event.get("plan_id")
    try:
        if not isinstance(execution_id, str) or not execution_id:
            raise InvalidInput(f"the event names no execution ({event!r}); send execution_id and plan_id")
        polled = poller.poll(execution_id, plan_id)
    except Exception as error:
        told = failure_document(
            error, clock.now_ms(), environment, execution_id=execution_id, plan_id=plan_id
        )
        write(told)
        raise
    write(poll_document(polled, clock.now_ms(), environment))
    return poll_summary(polled)


def poll_summary(polled: PollReport) -> dict[str, Any]:
    """The poll in plain words, for whoever invokes the function by hand."""
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
    stream = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "poller")  # where to read on about a lease
    return WatchingParts(
        load_settings(),
        executions_url=os.environ.get(EXECUTIONS_VARIABLE),
        sources=sources(own),
        history_limit=EXECUTIONS_READ,
        holder=f"{stream}-{secrets.token_hex(4)}",
        redact=redact_text,
    ).poller


def sources(own: str | None = None) -> Mapping[str, Source]:
    """The systems that can be asked from here: those of AWS.

    Processes are elsewhere, and addresses of HTTP are left out: whoever may write a record could send a
    function with rights to any of them.
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
