"""What an execution has to be before it is stored."""

from __future__ import annotations

import re
from typing import Any

import pytest

from longwatch.errors import InvalidInput
from longwatch.executions.model import Execution, Job, Stage
from longwatch.executions.validation import check_new, check_stage

JOB, SERVER = "drsjob-0123456789abcdefA", "s-0123456789abcdefA"
WAVE = Stage("db", (Job(JOB, region="eu-west-1", account="123456789012"),), (SERVER,))


def fresh(*waves: Stage, total: int | None = None, **more: Any) -> Execution:
    more = {"execution_id": "x-1", "plan_id": "p-1", "started_at": 0, **more}
    return Execution(stages=waves, total_stages=total, **more)


@pytest.mark.parametrize(
    "region",
    [
        "eu-west-1",
        "us-gov-west-1",
        "ap-southeast-3",
        "us-iso-east-1",
        "eusc-de-east-1",
        "cn-north-1",
        "mx-central-1",
    ],
)
def test_regions_of_every_partition_are_accepted(region: str) -> None:
    check_stage(Stage("db", (Job(JOB, region=region),)), "drs")


@pytest.mark.parametrize(
    ("wave", "why"),
    [
        (Stage("db", (Job("drsjob-1"),)), "DRS job id 'drsjob-1'. Use drsjob- and 17"),
        (Stage("db", (Job(f"{JOB}0"),)), "DRS job id"),
        (Stage("db", (Job(f"{JOB}\n"),)), "DRS job id"),
        (Stage("db", (Job(f"arn:aws:drs:eu-west-1:123456789012:job/{JOB}"),)), "DRS job id"),
        (Stage("db", (Job(SERVER),)), "DRS job id"),
        (
            Stage("db", (), ("i-0123456789abcdef0",)),
            "DRS source server id 'i-0123456789abcdef0'. Use s- and 17",
        ),
        (Stage("db", (), (JOB,)), "DRS source server id"),
        (Stage("db", (Job(JOB, region="eu-west"),)), "region 'eu-west'. Use the code of an AWS region"),
        (Stage("db", (Job(JOB, region="eu-west-1a"),)), "region"),
        (Stage("db", (Job(JOB, region=""),)), "region"),
        (Stage("db", (Job(JOB, account="1234-5678-9012"),)), "account '1234-5678-9012'. Use the 12 digits"),
        (Stage("db", (Job(JOB, account="١٢٣٤٥٦٧٨٩٠١٢"),)), "account"),
        (Stage("d\0b", (Job(JOB),)), "wave name"),
        (Stage("db", (Job(JOB), Job(JOB))), f"job {JOB!r} is given twice"),
    ],
)
def test_an_id_of_the_wrong_shape_is_rejected_with_what_is_expected(wave: Stage, why: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(why)):
        check_stage(wave, "drs")


def test_another_source_has_ids_of_its_own() -> None:
    check_stage(Stage("build", (Job("demo:1"),), ("step",)), "codebuild")


@pytest.mark.parametrize(
    ("execution", "is_count_stated"),
    [
        (fresh(WAVE, total=1), False),
        (fresh(WAVE), False),  # more waves may come, and an operator states their count
        (fresh(Stage("db", (), (SERVER,)), total=1), False),
        (fresh(Stage("db"), total=1), True),
        (fresh(total=2), True),
        (fresh(WAVE, total=3), True),
    ],
)
def test_an_execution_that_can_end_is_accepted(execution: Execution, is_count_stated: bool) -> None:
    check_new(execution, is_count_stated=is_count_stated)


@pytest.mark.parametrize(
    ("execution", "why"),
    [
        (fresh(), "Add --wave NAME=JOB, or --total-waves N"),
        (fresh(Stage("db"), total=1), "Wave 'db' has no job and no server"),
        (fresh(WAVE, Stage("web")), "Wave 'web' has no job and no server"),
        (
            fresh(WAVE, Stage("web", (Job(f"{JOB[:-1]}B"),)), total=1),
            "Invalid wave count 1: 2 waves are given",
        ),
        (fresh(WAVE, WAVE), "wave 'db' is given twice"),
        (fresh(WAVE, Stage("web", WAVE.jobs)), f"job {JOB!r} is given twice"),
        (fresh(WAVE, plan_id=""), "plan id ''. Use at least one character"),
        (fresh(WAVE, execution_id="x\n1"), "execution id"),
        (
            fresh(WAVE, plan_id="p" * 600, execution_id="é" * 300),
            "have 1201 bytes together. Use at most 1024",
        ),
    ],
)
def test_an_execution_that_could_never_end_is_rejected_with_what_to_add(
    execution: Execution, why: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(why)):
        check_new(execution, is_count_stated=False)
