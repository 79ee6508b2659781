"""Records above DynamoDB's item limit, with the details of their servers compressed into one attribute.

A recovery of 300 servers with 6 launch actions each does not fit into an item of 400 KB. Above the limit,
what only longwatch reads moves into `Packed` and comes back when the record is read: launch actions, reasons
and times of servers, and the details of the verdict. Ids, statuses and what other programs wrote stay in
place. If that is not enough, long texts are cut. `PackedNote` says so.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longwatch.journal.dynamodb.values import MAX_ITEM_BYTES, size_of, to_attribute
from longwatch.watching.shortening import shortened_texts
from longwatch.watching.stores.records import Record
from longwatch.watching.stores.waves import server_id_of

PACKED, NOTE = "Packed", "PackedNote"
MOST_BYTES = MAX_ITEM_BYTES - 20 * 1024  # an estimate of DynamoDB's own count, and room for other writers
TEXT_CHARACTERS = (None, 400, 100, 20)  # lengths to which texts are cut, until the record fits

ServerChange = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]  # of a server under its job and id

_OF_SERVERS = ("LaunchActions", "RecoveryInstanceId", "Reason", "StatusSince", "Word")
_OF_VERDICT = ("Evidence", "Message", "Warnings", "Assumed")


def packed(record: Record) -> Record:
    """The record as it fits into an item."""
    plain = {name: value for name, value in record.items() if name not in (PACKED, NOTE)}
    if _size(plain) <= MOST_BYTES:
        return plain
    small = plain
    for most in TEXT_CHARACTERS:
        small = _packed(plain, most)
        if _size(small) <= MOST_BYTES:
            break
    return small


def unpacked(record: Record) -> Record:
    """The record with its details back in place. A server that another program has removed stays removed."""
    if PACKED not in record:
        return record
    details = json.loads(zlib.decompress(record[PACKED]))
    learned = details["waves"]

    def restored(number: int) -> ServerChange:
        known = learned[number] if number < len(learned) else {}
        return lambda key, server: {**server, **known.get(key, {})}

    waves = [_changed(wave, restored(number)) for number, wave in enumerate(record.get("Waves") or ())]
    verdict = record.get("Verdict")
    whole = {**verdict, **details["verdict"]} if isinstance(verdict, Mapping) else verdict
    return {**record, "Waves": waves, **({"Verdict": whole} if whole is not None else {})}


def _packed(record: Record, most_characters: int | None) -> Record:
    details: dict[str, Any] = {"waves": [{} for _ in record["Waves"]], "verdict": {}}

    def moved(number: int) -> ServerChange:
        def move(key: str, server: Mapping[str, Any]) -> Mapping[str, Any]:
            details["waves"][number][key] = _only(server, _OF_SERVERS)
            return _without(server, _OF_SERVERS)

        return move

    waves = [_changed(wave, moved(number)) for number, wave in enumerate(record["Waves"])]
    small: Record = {**record, "Waves": waves}
    if isinstance(record.get("Verdict"), Mapping):
        details["verdict"] = _only(record["Verdict"], _OF_VERDICT)
        small["Verdict"] = _without(record["Verdict"], _OF_VERDICT)
    note = "Details of servers and verdict are compressed in Packed: the record exceeds DynamoDB's 400 KB."
    if most_characters is not None:
        details = shortened_texts(details, most_characters)
        note += f" Texts above {most_characters} characters are cut; the journal has them."
    content = json.dumps(details, separators=(",", ":"), default=float).encode()
    return {**small, PACKED: zlib.compress(content), NOTE: note}


def _changed(wave: Mapping[str, Any], change: ServerChange) -> dict[str, Any]:
    """The wave with this change to each server, in its list and in its jobs."""
    jobs = [
        {**job, "Servers": _changed_servers(job["Servers"], str(job.get("JobId")), change)}
        if isinstance(job, Mapping) and job.get("Servers")
        else job
        for job in wave.get("Jobs") or ()
    ]
    changed = {**wave, "Servers": _changed_servers(wave.get("Servers") or (), "", change)}
    return {**changed, "Jobs": jobs} if "Jobs" in wave else changed


def _changed_servers(servers: Sequence[Any], job_id: str, change: ServerChange) -> list[Any]:
    return [
        change(f"{job_id or server.get('JobId', '')}/{server_id_of(server)}", server)
        if isinstance(server, Mapping)
        else server
        for server in servers
    ]


def _only(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _without(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _size(record: Record) -> int:
    return size_of({name: to_attribute(value) for name, value in record.items()})
