"""`longwatch executions close`, `stop-watching`, `add-wave` and `set-waves`: decisions of an operator."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from longwatch.cli.execution_options import open_store, parse_ids, parse_wave, store_option
from longwatch.cli.options import (
    Invocation,
    common_options,
    execution_argument,
    output_option,
    pass_invocation,
)
from longwatch.cli.render.terminal import remark, write_data, write_document
from longwatch.cli.render.text import clean
from longwatch.cli.resolve import find_execution
from longwatch.cli.source_checks import check_job_ids
from longwatch.errors import InvalidInput
from longwatch.executions.model import Execution
from longwatch.executions.operators import MAX_STAGES, OUTCOMES, Operator, Statement
from longwatch.executions.sources.registry import sources
from longwatch.executions.validation import check_has_work, check_stage
from longwatch.executions.views import ExecutionView
from longwatch.journal.factory import open_journal
from longwatch.model.run import Status
from longwatch.recording.redaction import redact_text

F = TypeVar("F", bound=Callable[..., Any])


def decision_options(command: F) -> F:
    """What every decision takes: the execution, the reason and the operator."""
    for option in (
        output_option(),
        store_option,
        click.option("--operator", metavar="NAME", help="Operator who decides. [default: your login name]"),
        click.option("--reason", required=True, help="Reason, stored in the journal."),
    ):
        command = option(command)
    return execution_argument(command)


@click.command("close")
@decision_options
@click.option(
    "--as",
    "status",
    required=True,
    type=click.Choice([each.value for each in OUTCOMES], case_sensitive=False),
    help="Outcome of the execution.",
)
@common_options
@pass_invocation
def close(invocation: Invocation, /, status: str, **given: Any) -> None:
    """State how an execution ended, and stop watching it.

    The verdict names you and your reason. It corrects an earlier verdict, and no later response of the source
    corrects it. What runs in the other system keeps running: longwatch never starts or stops anything there.
    """
    _decide(invocation, lambda by, found, why: by.close(found, Status(status.lower()), why), **given)


@click.command("stop-watching")
@decision_options
@common_options
@pass_invocation
def stop_watching(invocation: Invocation, /, **given: Any) -> None:
    """Stop polling an open execution, without stating how it ended.

    Its status becomes unknown. If you learn later how it ended, state it with `close`.
    """
    _decide(invocation, lambda by, found, why: by.stop_watching(found, why), **given)


@click.command("add-wave")
@decision_options
@click.argument("wave", metavar="NAME=JOB,…")
@click.option("--servers", default="", metavar="ID,…", help="The servers of the wave in the plan.")
@click.option("--region", help="AWS region of its jobs. [default: from the AWS credentials]")
@click.option("--account", metavar="ID", help="AWS account of its jobs.")
@common_options
@pass_invocation
def add_wave(
    invocation: Invocation, /, wave: str, servers: str, region: str | None, account: str | None, **given: Any
) -> None:
    """Add a wave to an open execution.

    Its jobs are running already, or will be. A wave count that is too small for one more grows by one.
    """
    stage = replace(parse_wave(wave, region=region, account=account), expected_items=parse_ids(servers))

    def add(by: Operator, found: Execution, why: Statement) -> Execution:
        check_stage(stage, found.source)
        check_has_work(stage)
        source = sources(invocation.settings()).get(found.source)
        if source is not None:
            check_job_ids(source, (job.job_id for job in stage.jobs))
        return by.add_stage(found, stage, why)

    _decide(invocation, add, **given)


@click.command("set-waves")
@decision_options
@click.argument("count", type=click.IntRange(1, MAX_STAGES))
@common_options
@pass_invocation
def set_waves(invocation: Invocation, /, count: int, **given: Any) -> None:
    """State how many waves an open execution has.

    An execution ends when that many waves are stored and every one of them has ended. Without a count it
    stays open.
    """
    _decide(invocation, lambda by, found, why: by.set_stage_count(found, count, why), **given)


def _decide(
    invocation: Invocation,
    decide: Callable[[Operator, Execution, Statement], Execution],
    *,
    execution: str,
    reason: str,
    operator: str | None,
    url: str | None,
    output: str,
) -> None:
    settings, clock = invocation.settings(), invocation.clock
    named = _login_name() if operator is None else operator
    statement = Statement(redact_text(named), redact_text(reason))  # both are journaled
    with open_store(invocation, url) as store, open_journal(settings=settings, clock=clock) as journal:
        by = Operator(store, journal, clock=clock, ttl_hours=settings.ttl_hours)
        decided = decide(by, find_execution(store, execution), statement)
    if output != "text":
        write_document(ExecutionView.of(decided, now_ms=clock.now_ms()), output)
    else:
        write_data([decided.execution_id])
        remark(_remark(decided))


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError) as error:
        raise InvalidInput("This process has no login name. Name the operator with --operator.") from error


def _remark(execution: Execution) -> str:
    name = clean(execution.execution_id)
    if execution.closed:
        return f"Execution {name} is closed as {execution.status}."
    total = "an unknown number of" if execution.total_stages is None else execution.total_stages
    return f"Execution {name} has {len(execution.stages)} of {total} waves."
