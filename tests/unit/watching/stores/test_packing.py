"""Records that are too large for a DynamoDB item."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from longwatch.journal.dynamodb.values import MAX_ITEM_BYTES, size_of, to_attribute
from longwatch.summaries import Status
from longwatch.watching.model import ActionState, Execution, Job, JobState, Mode, Server, Verdict, Wave
from longwatch.watching.stores.packing import MOST_BYTES, packed, unpacked
from longwatch.watching.stores.records import execution_from, record_of
from tests.unit.watching.making import EVIDENCE, LAUNCHED, START, action, execution


def large(servers: int, actions: int, *, reason: str = "") -> Execution:
    """A recovery with so many servers, and launch actions for each."""
    listed = tuple(
        Server(
            f"s-{number:017x}",
            LAUNCHED,
            f"i-{number:017x}",
            tuple(
                action(ActionState.FAILED, f"run-{number}-{each}", reason=f"{reason}{number}", since=START)
                for each in range(actions)
            ),
            "LAUNCHED",
            since=START,
        )
        for number in range(servers)
    )
    job = Job("j-1", JobState.FINISHED, listed, finished_at=START, since=START, word="COMPLETED")
    warnings = tuple(f"{reason}{each}" for each in range(servers))
    return execution(
        Wave("one", (job,), tuple(server.server_id for server in listed)),
        mode=Mode.RECOVERY,
        verdict=Verdict(Status.SUCCEEDED, START, EVIDENCE, warnings=warnings),
        closed=True,
    )


def size(record: dict[str, Any]) -> int:
    return size_of({name: to_attribute(value) for name, value in record.items()})


def test_a_record_that_fits_is_stored_as_it_is() -> None:
    record = record_of(large(20, 6))

    assert packed(record) == record
    assert unpacked(record) is record


def test_details_are_compressed_and_come_back_whole() -> None:
    reason = "the agent did not report back within the time that was configured: " * 3
    whole = large(300, 6, reason=reason)
    record = record_of(whole)
    assert size(record) > MAX_ITEM_BYTES

    small = packed(record)

    assert size(small) <= MOST_BYTES
    assert execution_from(unpacked(small)) == whole
    assert "compressed in Packed" in small["PackedNote"]
    assert (small["Status"], small["Verdict"]["Status"]) == ("COMPLETED", "succeeded")
    assert small["Waves"][0]["Servers"][0]["Status"] == "LAUNCHED"
    assert packed({**unpacked(small)}) == small


def test_texts_are_cut_where_compressing_is_not_enough() -> None:
    noise = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(40))
    whole = large(300, 6, reason=noise)
    listed = whole.waves[0].jobs[0].servers
    servers = tuple(
        replace(each, actions=tuple(replace(one, reason=noise[number:] + noise) for one in each.actions))
        for number, each in enumerate(listed)
    )
    jobs = (replace(whole.waves[0].jobs[0], servers=servers),)
    record = record_of(replace(whole, waves=(replace(whole.waves[0], jobs=jobs),)))

    small = packed(record)
    found = execution_from(unpacked(small))

    assert size(small) <= MAX_ITEM_BYTES
    assert [server.state for _, server in found.servers()] == [LAUNCHED] * 300
    assert sum(len(server.actions) for _, server in found.servers()) == 1_800


def test_a_server_that_another_program_removes_stays_removed() -> None:
    small = packed(record_of(large(300, 6, reason="x" * 100)))
    wave = small["Waves"][0]

    found = execution_from(unpacked({**small, "Waves": [{**wave, "Servers": wave["Servers"][1:]}]}))

    assert len(list(found.servers())) == 299


def test_the_attempts_of_a_retry_come_back_with_their_own_details() -> None:
    first = large(300, 6, reason="x" * 200)
    job = first.waves[0].jobs[0]
    servers = tuple(
        replace(each, instance_id=f"again-{each.instance_id}", actions=each.actions[:1])
        for each in job.servers
    )
    retry = replace(job, job_id="j-2", servers=servers, created_at=START + 1)
    whole = replace(first, waves=(replace(first.waves[0], jobs=(job, retry)),), verdict=None, closed=False)
    record = record_of(whole)

    small = packed(record)

    assert "Packed" in small
    assert execution_from(unpacked(small)) == execution_from(record) == whole
