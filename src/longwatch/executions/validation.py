"""Validates new executions and stages: well-formed ids, and a way to end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from longwatch.errors import InvalidInput
from longwatch.executions.model import Execution, Stage
from longwatch.model.event import MAX_RUN_ID_BYTES

DRS = "drs"


@dataclass(frozen=True, slots=True)
class IdFormat:
    """The format of an id, as a pattern and for people."""

    pattern: str
    hint: str

    def check(self, kind: str, value: str) -> None:
        if not re.fullmatch(self.pattern, value):
            raise InvalidInput(f"Invalid {kind} {value[:100]!r}. Use {self.hint}.")


# As the service model of DRS has them.
JOB_ID = IdFormat(
    "drsjob-[0-9a-zA-Z]{17}", "drsjob- and 17 letters or digits, such as drsjob-0123456789abcdef0"
)
SERVER_ID = IdFormat("s-[0-9a-zA-Z]{17}", "s- and 17 letters or digits, such as s-0123456789abcdef0")
ACCOUNT = IdFormat("[0-9]{12}", "the 12 digits of an AWS account")
REGION = IdFormat("[a-z]{2,4}(-[a-z]+){1,3}-[0-9]{1,2}", "the code of an AWS region, such as eu-west-1")
NAME = IdFormat(r"[^\x00-\x1f\x7f]+", "at least one character, and no control characters")


def check_new(execution: Execution, *, is_count_stated: bool) -> None:
    """Raise `InvalidInput` for an execution that has a malformed id, or could never end.

    `is_count_stated`: the wave count was given, rather than taken from the waves that are there.
    """
    NAME.check("plan id", execution.plan_id)
    NAME.check("execution id", execution.execution_id)
    size = len(str(execution.key).encode())
    if size > MAX_RUN_ID_BYTES:
        raise InvalidInput(
            f"Plan id and execution id have {size} bytes together. Use at most {MAX_RUN_ID_BYTES}."
        )
    _check_unique("wave", (stage.name for stage in execution.stages))
    _check_unique("job", execution.job_ids())
    for stage in execution.stages:
        check_stage(stage, execution.source)
    _check_end(execution, is_count_stated=is_count_stated)


def check_stage(stage: Stage, source: str) -> None:
    """Raise `InvalidInput` if an id in this stage is malformed."""
    NAME.check("wave name", stage.name)
    _check_unique("job", (job.job_id for job in stage.jobs))
    for job in stage.jobs:
        if source == DRS:
            JOB_ID.check("DRS job id", job.job_id)
        if job.region is not None:
            REGION.check("region", job.region)
        if job.account is not None:
            ACCOUNT.check("account", job.account)
    if source == DRS:
        for server_id in stage.expected_items:
            SERVER_ID.check("DRS source server id", server_id)


def check_has_work(stage: Stage) -> None:
    """Raise `InvalidInput` if nothing in this stage can be polled or waited for."""
    if not stage.jobs and not stage.expected_items:
        raise InvalidInput(
            f"Wave {stage.name!r} has no job and no server, so the execution could never end. Name its jobs "
            f"({stage.name}=JOB,JOB) or its servers (--servers)."
        )


def _check_end(execution: Execution, *, is_count_stated: bool) -> None:
    stored, total = len(execution.stages), execution.total_stages
    if total is not None and total < stored:
        raise InvalidInput(f"Invalid wave count {total}: {stored} waves are given. Use {stored} or more.")
    if is_count_stated:
        return
    if not stored:
        raise InvalidInput(
            "An execution without a wave and without a wave count could never end. Add --wave NAME=JOB, or "
            "--total-waves N if another program adds the waves."
        )
    for stage in execution.stages:
        check_has_work(stage)


def _check_unique(kind: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InvalidInput(f"The {kind} {value!r} is given twice. Name each {kind} once.")
        seen.add(value)
