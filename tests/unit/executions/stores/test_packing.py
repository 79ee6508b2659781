"""Records that are too large for a DynamoDB item."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.executions.model import (
    Execution,
    ItemState,
    Job,
    JobState,
    Mode,
    Stage,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.executions.stores.packing import MOST_BYTES, pack, unpack
from longwatch.executions.stores.records import parse_record, to_record
from longwatch.model.summary import Status
from longwatch.storage.dynamodb.values import MAX_ITEM_BYTES, size_of, to_attribute
from tests.unit.executions.samples import EVIDENCE, LAUNCHED, START, action, execution


def large(servers: int, actions: int, *, reason: str = "") -> Execution:
    """A recovery with so many servers, and launch actions for each."""
    listed = tuple(
        WorkItem(
            f"s-{number:017x}",
            LAUNCHED,
            f"i-{number:017x}",
            tuple(
                action(StepState.FAILED, f"run-{number}-{each}", reason=f"{reason}{number}", since=START)
                for each in range(actions)
            ),
            "LAUNCHED",
            since=START,
        )
        for number in range(servers)
    )
    job = Job("j-1", JobState.FINISHED, listed, finished_at=START, since=START, source_status="COMPLETED")
    warnings = tuple(f"{reason}{each}" for each in range(servers))
    return execution(
        Stage("one", (job,), tuple(server.item_id for server in listed)),
        mode=Mode.RECOVERY,
        verdict=Verdict(Status.SUCCEEDED, START, EVIDENCE, warnings=warnings),
        closed=True,
    )


def size(record: dict[str, Any]) -> int:
    return size_of({name: to_attribute(value) for name, value in record.items()})


def test_a_record_that_fits_is_stored_as_it_is() -> None:
    record = to_record(large(20, 6))

    assert pack(record) == record
    assert unpack(record) is record


def test_details_are_compressed_and_come_back_whole() -> None:
    reason = "the agent did not report back within the time that was configured: " * 3
    whole = large(300, 6, reason=reason)
    record = to_record(whole)
    assert size(record) > MAX_ITEM_BYTES

    small = pack(record)

    assert size(small) <= MOST_BYTES
    assert parse_record(unpack(small)) == whole
    assert "compressed in Packed" in small["PackedNote"]
    assert (small["Status"], small["Verdict"]["Status"]) == ("COMPLETED", "succeeded")
    assert small["Waves"][0]["Servers"][0]["Status"] == "LAUNCHED"
    assert pack({**unpack(small)}) == small


def test_texts_are_cut_where_compressing_is_not_enough() -> None:
    noise = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(40))
    whole = large(300, 6, reason=noise)
    listed = whole.stages[0].jobs[0].items
    servers = tuple(
        replace(each, steps=tuple(replace(one, reason=noise[number:] + noise) for one in each.steps))
        for number, each in enumerate(listed)
    )
    jobs = (replace(whole.stages[0].jobs[0], items=servers),)
    record = to_record(replace(whole, stages=(replace(whole.stages[0], jobs=jobs),)))

    small = pack(record)
    found = parse_record(unpack(small))

    assert size(small) <= MAX_ITEM_BYTES
    assert [server.state for _, server in found.items()] == [LAUNCHED] * 300
    assert sum(len(server.steps) for _, server in found.items()) == 1_800


def test_a_server_that_another_program_removes_stays_removed() -> None:
    small = pack(to_record(large(300, 6, reason="x" * 100)))
    wave = small["Waves"][0]

    found = parse_record(unpack({**small, "Waves": [{**wave, "Servers": wave["Servers"][1:]}]}))

    assert len(list(found.items())) == 299


def test_the_attempts_of_a_retry_come_back_with_their_own_details() -> None:
    first = large(300, 6, reason="x" * 200)
    job = first.stages[0].jobs[0]
    servers = tuple(
        replace(each, instance_id=f"again-{each.instance_id}", steps=each.steps[:1]) for each in job.items
    )
    retry = replace(job, job_id="j-2", items=servers, created_at=START + 1)
    whole = replace(first, stages=(replace(first.stages[0], jobs=(job, retry)),), verdict=None, closed=False)
    record = to_record(whole)

    small = pack(record)

    assert "Packed" in small
    assert parse_record(unpack(small)) == parse_record(record) == whole


def noisy(servers: int, actions: int, *, seed: int, words: int = 2) -> Execution:
    """A recovery whose ids and reasons do not compress: every third server failed."""
    chance = random.Random(seed)

    def noise(characters: int) -> str:
        return f"{chance.getrandbits(4 * characters):0{characters}x}"

    listed = tuple(
        WorkItem(
            f"s-{noise(17)}",
            ItemState.FAILED if number % 3 == 0 else LAUNCHED,
            f"i-{noise(17)}",
            tuple(
                action(StepState.FAILED, noise(36), reason=noise(20 * words), since=START + each)
                for each in range(actions)
            ),
            since=START + number,
            reason=noise(20 * words),
        )
        for number in range(servers)
    )
    job = Job("j-1", JobState.FINISHED, listed, finished_at=START, since=START)
    return execution(
        Stage("one", (job,), tuple(server.item_id for server in listed)),
        mode=Mode.RECOVERY,
        verdict=Verdict(Status.PARTIAL, START, EVIDENCE, warnings=tuple(noise(40) for _ in range(servers))),
        closed=True,
    )


@pytest.mark.parametrize(("servers", "actions"), [(2_000, 3), (20_000, 0)])
def test_any_number_of_servers_fits_with_those_that_failed(servers: int, actions: int) -> None:
    whole = noisy(servers, actions, seed=servers)

    small = pack(to_record(whole))
    found = parse_record(unpack(small))

    assert size(small) <= MOST_BYTES
    assert (found.status, found.closed, found.job_ids()) == (whole.status, True, ("j-1",))
    failed = {each.item_id for _, each in whole.items() if each.state is ItemState.FAILED}
    items = [each for _, each in found.items()]
    assert failed <= {each.item_id for each in items}
    assert len(items) == servers or "servers are left out" in small["PackedNote"]
    assert pack(to_record(replace(found, stored=unpack(small))))["Waves"] == small["Waves"]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 700), st.integers(0, 8), st.integers(0, 40), st.integers(0, 2**32))
def test_every_record_fits(servers: int, actions: int, words: int, seed: int) -> None:
    record = to_record(noisy(servers, min(actions, 1_500 // (servers + 1)), seed=seed, words=words))

    small = pack(record)

    assert size(small) <= MOST_BYTES
    assert parse_record(unpack(small)).job_ids() == ("j-1",)
    assert ("PackedNote" in small) is (size(record) > MOST_BYTES)


def test_lists_that_moved_come_back_with_what_other_programs_wrote() -> None:
    record = to_record(large(8_000, 0))
    wave = record["Waves"][0]
    record["Waves"][0]["Servers"] = [{**each, "Owner": "finance"} for each in wave["Servers"]]
    small = pack(record)
    assert "Servers" not in small["Waves"][0]
    assert "lists of its servers and jobs" in small["PackedNote"]
    added = {**small["Waves"][0], "Servers": [{"SourceServerId": "s-new"}], "Jobs": [{"JobId": "j-2"}]}

    found = unpack({**small, "Waves": [added]})

    assert unpack(small)["Waves"] == record["Waves"]
    assert found["Waves"][0]["Servers"] == [*record["Waves"][0]["Servers"], {"SourceServerId": "s-new"}]
    assert parse_record(found).job_ids() == ("j-1", "j-2")
