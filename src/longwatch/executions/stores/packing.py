"""Records above DynamoDB's item limit, with the details of their servers compressed into one attribute.

A recovery of 300 servers with 6 launch actions each does not fit into an item of 400 KB. Above the limit,
details that only longwatch reads move into `Packed`, and back when the record is read: launch actions,
reasons and times of servers, and the details of the verdict. Ids, statuses and attributes of other programs
stay in place. If that is not enough, long texts are truncated, then the lists of servers and jobs move as
well, and finally details and servers are omitted, successful ones first. `PackedNote` describes what was
done.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from longwatch.executions.model import ItemState, StepState
from longwatch.executions.stores.records import Record
from longwatch.executions.stores.stage_records import server_id_of
from longwatch.executions.truncation import truncate_texts
from longwatch.storage.dynamodb.values import MAX_ITEM_BYTES, size_of, to_attribute

PACKED, NOTE, MOVED = "Packed", "PackedNote", "PackedLists"
MOST_BYTES = MAX_ITEM_BYTES - 20 * 1024  # an estimate of DynamoDB's own count, and room for other writers
TEXT_CHARACTERS = (None, 400, 100, 20)  # lengths to which texts are cut, until the record fits
MOST_WARNINGS = 1_000  # that are kept once details are left out
SHARES = (0.75, 0.5, 0.35, 0.2, 0.1, 0.05, 0.01, 0.001, 0.0)  # of the servers, at last

Form = Callable[[], tuple[Record, Record, str]]  # what stays in place, what is compressed, and the note
ServerChange = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]  # of a server under its job and id

_OF_SERVERS = ("LaunchActions", "RecoveryInstanceId", "Reason", "StatusSince", "Word")
_OF_VERDICT = ("Evidence", "Message", "Warnings", "Assumed")
_LISTS = ("Servers", "Jobs")  # of a wave
_IDS = ("SourceServerId", "SourceServerID", "ServerId", "JobId", "JobID")
_ESSENTIAL = (*_IDS, "Status", "StatusSince", "RecoveryInstanceId", "Planned")
_SUCCEEDED, _FAILED = StepState.SUCCEEDED.value.upper(), StepState.FAILED.value.upper()
_LAUNCHED = ItemState.DONE.value.upper()


def pack(record: Record) -> Record:
    """Pack a record into the size of an item, whatever the number of its servers."""
    plain = {name: value for name, value in record.items() if name not in (PACKED, NOTE)}
    if _size(plain) <= MOST_BYTES:
        return plain
    for group in _smaller(plain):
        found = _first_fitting(group)
        if found is not None:
            return found
    return plain


def unpack(record: Record) -> Record:
    """Restore the details of a record. A server that another program has removed stays removed."""
    if PACKED not in record:
        return record
    details = json.loads(zlib.decompress(record[PACKED]))
    learned, lists = details.get("waves", ()), details.get("lists", ())
    waves = [
        _with_lists(wave, lists[number])
        if MOVED in wave and number < len(lists)
        else _changed(wave, _restoring(learned[number] if number < len(learned) else {}))
        for number, wave in enumerate(record.get("Waves") or ())
    ]
    verdict = record.get("Verdict")
    whole = {**verdict, **details["verdict"]} if isinstance(verdict, Mapping) else verdict
    return {**record, "Waves": waves, **({"Verdict": whole} if whole is not None else {})}


def _first_fitting(group: Sequence[Form]) -> Record | None:
    """The largest form that fits. The last is tried second: if it does not fit, no other does."""
    first, last = group[0], group[-1]
    found = _fitting(*first())
    if found is not None:
        return found
    smallest = _fitting(*last())
    if smallest is None:
        return None
    return next((each for form in group[1:-1] if (each := _fitting(*form())) is not None), smallest)


def _fitting(small: Record, details: Record, note: str) -> Record | None:
    content = zlib.compress(json.dumps(details, separators=(",", ":"), default=float).encode())
    if _size(small) + len(PACKED) + len(content) + len(NOTE) + len(note) > MOST_BYTES:
        return None
    return {**small, PACKED: content, NOTE: note}


def _smaller(plain: Record) -> Iterator[Sequence[Form]]:
    """Groups of ever smaller forms: what stays in place, what is compressed, and the note."""
    note = "Details of servers and verdict are compressed in Packed: the record exceeds DynamoDB's 400 KB."
    small, verdict = _verdict_apart(plain)
    learned: list[dict[str, Any]] = [{} for _ in plain["Waves"]]
    waves = [_changed(wave, _moving(learned[number])) for number, wave in enumerate(plain["Waves"])]
    in_place = {**small, "Waves": waves}

    def with_servers(most: int | None) -> tuple[Record, Record, str]:
        details = {"waves": _cut(learned, most), "verdict": _cut(verdict, most)}
        return in_place, details, note + _cut_note(most)

    if _size(in_place) <= MOST_BYTES:
        yield [partial(with_servers, most) for most in TEXT_CHARACTERS]

    moved = f"{note} So are the lists of its servers and jobs."
    small["Waves"] = [{**_without(wave, _LISTS), MOVED: True} for wave in plain["Waves"]]
    lists = [_only(wave, _LISTS) for wave in plain["Waves"]]

    def with_lists(most: int | None) -> tuple[Record, Record, str]:
        cut = [_changed(wave, _cutting(most)) for wave in lists]
        return small, {"lists": cut, "verdict": _cut(verdict, most)}, moved + _cut_note(most)

    yield [partial(with_lists, most) for most in TEXT_CHARACTERS]

    shortest = TEXT_CHARACTERS[-1]
    reduced = [_changed(wave, _cutting(shortest)) for wave in lists]
    few_words = truncate_texts(verdict, shortest, MOST_WARNINGS)

    def without(number: int) -> tuple[Record, Record, str]:
        change, left_out = _REDUCTIONS[number]
        details = {"lists": [_changed(wave, change) for wave in reduced], "verdict": few_words}
        return small, details, f"{moved}{_cut_note(shortest)} {left_out}"

    yield [partial(without, number) for number in range(len(_REDUCTIONS))]

    essential = [_changed(wave, _with_essentials) for wave in lists]
    servers = sum(len(each) for each in _server_lists(essential))

    def with_fewer(share: float) -> tuple[Record, Record, str]:
        fewer = [_with_fewer(wave, share) for wave in essential]
        more = servers - sum(len(each) for each in _server_lists(fewer))
        left_out = f"{more:,} of {servers:,} servers are left out, those that were launched first."
        return small, {"lists": fewer, "verdict": few_words}, f"{moved}{_cut_note(shortest)} {left_out}"

    yield [partial(with_fewer, share) for share in SHARES]


def _verdict_apart(record: Record) -> tuple[Record, dict[str, Any]]:
    verdict = record.get("Verdict")
    if not isinstance(verdict, Mapping):
        return dict(record), {}
    return {**record, "Verdict": _without(verdict, _OF_VERDICT)}, _only(verdict, _OF_VERDICT)


def _with_lists(wave: Mapping[str, Any], lists: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the lists of a wave, and keep what another program has added to them."""
    whole = _without(wave, (MOVED,))
    for name, listed in lists.items():
        there = {_id_of(name, each) for each in listed}
        added = [each for each in wave.get(name) or () if _id_of(name, each) not in there]
        whole[name] = [*listed, *added]
    return whole


def _id_of(name: str, entry: Any) -> str:
    if name == "Servers":
        return server_id_of(entry)
    return str(entry.get("JobId") if isinstance(entry, Mapping) else entry)


def _moving(learned: dict[str, Any]) -> ServerChange:
    def move(key: str, server: Mapping[str, Any]) -> Mapping[str, Any]:
        learned[key] = _only(server, _OF_SERVERS)
        return _without(server, _OF_SERVERS)

    return move


def _restoring(learned: Mapping[str, Any]) -> ServerChange:
    return lambda key, server: {**server, **learned.get(key, {})}


def _cutting(most_characters: int | None) -> ServerChange:
    return lambda _, server: {**server, **_cut(_only(server, _OF_SERVERS), most_characters)}


def _with_worst_action(_: str, server: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep the launch action that decides: without any, its actions would count as not yet listed."""
    actions = server.get("LaunchActions")
    return {**server, "LaunchActions": [_worst(actions)]} if actions else server


def _with_essentials(_: str, server: Mapping[str, Any]) -> Mapping[str, Any]:
    essential, actions = _only(server, _ESSENTIAL), server.get("LaunchActions")
    return {**essential, "LaunchActions": [_only(_worst(actions), ("Status",))]} if actions else essential


def _worst(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    order = (_FAILED, _SUCCEEDED)  # any other is still running
    return min(actions, key=lambda each: order.index(each["Status"]) if each["Status"] in order else -1)


_REDUCTIONS: Sequence[tuple[ServerChange, str]] = (
    (
        _with_worst_action,
        "Of the launch actions of each server one is kept, one that failed if there is any.",
    ),
    (_with_essentials, "Of each server the ids and statuses are kept."),
)


def _with_fewer(wave: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The wave with this share of the servers in each of its lists.

    Those that were launched go first, but for one: the wave has not failed in all of its servers.
    """

    def fewer(servers: Sequence[Any]) -> list[Any]:
        launched = [each for each in servers if _is_launched(each)]
        others = [each for each in servers if not _is_launched(each)]
        return [*launched[:1], *others, *launched[1:]][: int(len(servers) * share)]

    jobs = [
        {**job, "Servers": fewer(job["Servers"])} if isinstance(job, Mapping) and job.get("Servers") else job
        for job in wave.get("Jobs") or ()
    ]
    return {**wave, "Servers": fewer(wave.get("Servers") or ()), "Jobs": jobs}


def _is_launched(server: Any) -> bool:
    return isinstance(server, Mapping) and server.get("Status") == _LAUNCHED


def _server_lists(lists: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Any]]:
    for wave in lists:
        yield wave.get("Servers") or ()
        for job in wave.get("Jobs") or ():
            yield (job.get("Servers") or ()) if isinstance(job, Mapping) else ()


def _cut(value: Any, most_characters: int | None) -> Any:
    return value if most_characters is None else truncate_texts(value, most_characters)


def _cut_note(most_characters: int | None) -> str:
    if most_characters is None:
        return ""
    return f" Texts above {most_characters} characters are cut; the journal has them."


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
