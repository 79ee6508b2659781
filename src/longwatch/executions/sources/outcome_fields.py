"""Fields that qualify a status: `completed` means that a job is over, `conclusion` how it ended.

A status that means success counts only if no field beside it contradicts. These fields are declared
(`outcome`) or, for HTTP responses without a declaration, recognised by their usual names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longwatch.executions.sources.declarations import (
    Declaration,
    HttpCall,
    Meaning,
    StatusTable,
    normalize,
    statuses,
)
from longwatch.executions.sources.expressions import parse_path, value_at
from longwatch.executions.sources.shipped import COMMON_STATUSES

OUTCOME_STATUSES: StatusTable = {
    **COMMON_STATUSES,
    **statuses(
        pending="action_required",
        succeeded="neutral true",
        failed="unstable broken crashed killed startup_failure partiallysucceeded partially_succeeded false",
        cancelled="skipped not_built",
        ended="stale",
    ),
}
"""The usual values of fields such as `conclusion` and `result`."""
STATUS_FIELDS = ("status", "state")
NEUTRAL_STATUSES = frozenset({"completed", "complete", "done", "finished"})  # ended, without an outcome
MAX_DEPTH = 8  # of objects and lists below the one that holds the status

# Names of fields, without regard to case, `_` and `-`.
_CONCLUSIONS = frozenset({"conclusion", "outcome", "verdict", "finalstatus", "finalstate"})
_OUTCOMES = _CONCLUSIONS | {"result"}  # which may also contain what was computed
_EXIT_CODES = frozenset({"exitcode", "exitstatus", "exit", "returncode", "rc"})
_SIGNALS = frozenset({"signal", "exitsignal"})
_CODES_AND_SIGNALS = _EXIT_CODES | _SIGNALS | {"resultcode"}
_SUCCESS_FLAGS = frozenset(
    {"success", "succeeded", "successful", "issuccess", "issuccessful", "ok", "passed"}
)
_FAILURE_FLAGS = frozenset(
    {"error", "errors", "failed", "failure", "failures", "exception", "errormessage", "errorcode", "iserror"}
    | {"haserror", "haserrors", "hasfailed", "isfailed", "timedout", "hastimedout"}
    | {"failurereason", "failuremessage", "failurecode", "errorreason"}
)
_CANCEL_FLAGS = frozenset({"cancelled", "canceled", "aborted", "iscancelled", "iscanceled"})
_ACTIVE_FLAGS = frozenset({"building", "running", "inprogress", "pending", "isrunning", "isbuilding"})
_OVER_FLAGS = frozenset(
    {"done", "finished", "completed", "complete", "isdone", "isfinished", "iscompleted", "iscomplete"}
)
_WRAPPERS = frozenset(
    {"data", "response", "job", "build", "run", "task", "pipeline", "execution", "operation", "deployment"}
    | _OUTCOMES
    | {"exit"}
)
_JOBS = tuple(sorted(_WRAPPERS - _OUTCOMES - {"data", "response", "exit"} | {"workflow", "step", "stage"}))
_NOTHING = frozenset({"", "none", "null"})
_FALSE = _NOTHING | {"0", "false", "no", "n/a"}
# Ends of names that qualify a status wherever they are (`job_conclusion`). Those that are also ends of other
# words (`estate`) count as a word of their own, or after the name of a job (`runstate`).
_SPECIFIC_ENDS = (*sorted(_CONCLUSIONS), *sorted(_CODES_AND_SIGNALS - {"rc", "exit", "signal"}))
_GENERAL_ENDS = ("result", "status")
_WHOLE_WORDS = ("state", "signal", "exit")
_LEFT_OUT = frozenset({"skipped", "not_built"})  # a part of a job that did not have to run
_OTHER_JOBS = ("previous", "prev", "last", "prior", "parent", "expected", "old")
_SHORT_NAMES = {
    ("exit", "code"),
    ("exit", "status"),
    ("exit", "signal"),
    ("return", "code"),
    ("result", "code"),
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One field beside the status, and what it means for the outcome."""

    field: str
    value: str
    meaning: Meaning | None  # None: empty, or a status that is in no table
    is_empty: bool = False
    is_word: bool = True  # a status of the system; False: an exit code, an error or a flag

    def __str__(self) -> str:
        return f"{self.field} {self.value or 'null'}"


def qualify_status(word: str, status: Meaning | None, qualifiers: Sequence[Qualifier]) -> Meaning | None:
    """The meaning of a status together with its qualifiers. None: the outcome is unclear.

    No field improves a status that is not an end, or that means failed or cancelled. Success needs every
    field to agree, and a neutral status such as `completed` needs one that is not empty, if there is any.
    """
    if status is None or not status.is_end:
        return status
    filled = [each for each in qualifiers if not each.is_empty]
    for each in filled:
        if each.meaning is not None and not each.meaning.is_end:
            return each.meaning
    if status in (Meaning.FAILED, Meaning.CANCELLED):
        return status
    by_word = {each.meaning for each in filled if each.is_word}
    meanings = {each.meaning for each in filled}
    for worst, among in (
        (Meaning.FAILED, by_word),
        (Meaning.CANCELLED, by_word),  # the exit code of a cancelled job is rarely 0
        (Meaning.FAILED, meanings),
        (Meaning.CANCELLED, meanings),
    ):
        if worst in among:
            return worst
    if None in meanings:
        return None
    if Meaning.ENDED in meanings:
        return Meaning.ENDED
    if Meaning.SUCCEEDED in meanings:
        return Meaning.SUCCEEDED
    is_neutral = status is Meaning.ENDED or normalize(word) in NEUTRAL_STATUSES
    return None if qualifiers and is_neutral else status


def status_values(fields: Any) -> list[Any]:
    """The values of `status` and `state` in a JSON object, in this order."""
    if not isinstance(fields, Mapping):
        return []
    return [value for wanted in STATUS_FIELDS for name, value in fields.items() if _folded(name) == wanted]


def qualifiers_of(declaration: Declaration, fields: Any) -> list[Qualifier]:
    """The fields of a response that qualify its status."""
    if declaration.outcome:
        return [_declared(path, value_at(fields, path), declaration.statuses) for path in declaration.outcome]
    if not isinstance(declaration.call, HttpCall):
        return []  # the status of an AWS service is sufficient
    table = {**OUTCOME_STATUSES, **declaration.statuses}
    path = parse_path(declaration.status) if declaration.status else ()
    found: list[Qualifier] = []
    holder = fields
    for depth in range(max(1, len(path))):
        skipped = path[depth] if depth < len(path) else None
        is_innermost = depth >= len(path) - 1
        beside = list(_beside(holder, table, skipped=skipped, is_innermost=is_innermost))
        found += beside
        if is_innermost and isinstance(holder, Mapping):
            is_concluded = any(_is_own_success(each) for each in beside)
            found += _contradictions(holder, table, skipped=skipped, with_parts=not is_concluded)
        holder = _inside(holder, skipped)
    return found


def _is_own_success(qualifier: Qualifier) -> bool:
    """Whether it is the job's own conclusion, and success. A part that failed was then allowed to fail."""
    return qualifier.meaning is Meaning.SUCCEEDED and _folded(qualifier.field) in _OUTCOMES


def _contradictions(
    holder: Mapping[Any, Any], table: StatusTable, *, skipped: object, with_parts: bool
) -> Iterator[Qualifier]:
    """Fields, recognised by the ends of their names, in this object and below it, that contradict success.

    They decide nothing: with one of them, the outcome is unclear.
    """
    for name, value in holder.items():
        if name == skipped or _folded(name).startswith(_OTHER_JOBS):
            continue
        if isinstance(value, Mapping | list):
            if with_parts:
                yield from _in_parts(str(name), _folded(name), value, table, is_job=False, depth=1)
        elif _folded(name) not in _OUTCOMES and _folded(name) not in STATUS_FIELDS:
            yield from _contradiction(str(name), name, value, table, is_job=_is_job(_folded(name)))


def _in_parts(
    path: str, folded: str, value: Any, table: StatusTable, *, is_job: bool, depth: int
) -> Iterator[Qualifier]:
    """Likewise inside an object or a list. `is_job`: it is one of several jobs or steps."""
    if depth > MAX_DEPTH:
        return
    is_job = is_job or _is_job(folded)
    if isinstance(value, list):
        for number, each in enumerate(value):
            if isinstance(each, Mapping | list):
                name = folded if is_job else ""
                yield from _in_parts(f"{path}[{number}]", name, each, table, is_job=is_job, depth=depth + 1)
        return
    is_listed = path.endswith("]")
    for name, inside in value.items():
        below, where = _folded(name), f"{path}.{name}"
        if below.startswith(_OTHER_JOBS):
            continue
        if isinstance(inside, Mapping | list):
            is_one = folded.endswith("s") and is_job and not is_listed  # `jobs: {"a": {…}, "b": {…}}`
            yield from _in_parts(where, below, inside, table, is_job=is_one, depth=depth + 1)
        elif is_job or not is_listed or _end_of(name) not in (*_GENERAL_ENDS, "state"):
            yield from _contradiction(where, _joined(folded, name), inside, table, is_job=is_job)


def _contradiction(
    where: str, name: object, value: Any, table: StatusTable, *, is_job: bool
) -> Iterator[Qualifier]:
    end = _end_of(name)
    if end is None:
        return
    is_specific = end not in (*_GENERAL_ENDS, "state")
    if is_specific:
        found = _read(where, end, value, table)
    elif isinstance(value, bool) and end != "result":
        return
    else:
        found = _word(where, value, table)
    if found is None or found.is_empty or found.meaning is Meaning.SUCCEEDED:
        return
    if found.meaning is None and not is_specific and (not is_job or end == "result" or value == 0):
        return  # a status of something else: only a job's own unknown state keeps it open
    if not ("." in where and normalize(found.value) in _LEFT_OUT):
        yield replace(found, meaning=None)


def _end_of(name: object) -> str | None:
    """The end of a name that makes it qualify a status; None: it does not."""
    folded = _folded(name)
    last = re.split(r"[_\-\s]", _CAMEL.sub("_", str(name)))[-1].casefold()
    for end in (*_SPECIFIC_ENDS, *_GENERAL_ENDS):
        if folded.endswith(end):
            return end
    for end in _WHOLE_WORDS:
        if last == end or (folded.endswith(end) and folded.removesuffix(end).endswith(_JOBS)):
            return end
    return None


def _is_job(folded: str) -> bool:
    """Whether a name is that of a job, of several, or of a field of one (`run_status`)."""
    for end in (*_GENERAL_ENDS, "state"):
        folded = folded.removesuffix(end)
    return folded.removesuffix("s").endswith(_JOBS)


def _joined(holder: str, name: object) -> object:
    """`exit.code` is an exit code, and so on."""
    return f"{holder}_{name}" if (holder, _folded(name)) in _SHORT_NAMES else name


def _declared(path: str, value: Any, table: StatusTable) -> Qualifier:
    """A declared field. It is required: without it the outcome is unclear."""
    word = _word(path, value, table)
    if word.meaning is not None:
        return word
    folded = _folded(parse_path(path)[-1]) if parse_path(path) else ""
    found = _read(path, folded, value, table)
    if found is None and folded in _FAILURE_FLAGS | _SIGNALS:  # without an error
        return Qualifier(path, word.value, Meaning.SUCCEEDED, is_word=False)
    return found or Qualifier(path, "", None, is_empty=True)


def _beside(holder: Any, table: StatusTable, *, skipped: object, is_innermost: bool) -> Iterator[Qualifier]:
    """The known fields of one object. The field on the way to the status is not beside it."""
    if not isinstance(holder, Mapping):
        return
    statuses = [name for name in holder if _folded(name) in STATUS_FIELDS]
    for name, value in holder.items():
        if name == skipped:
            continue
        folded = _folded(name)
        if folded in STATUS_FIELDS:
            if is_innermost and (skipped is not None or len(statuses) > 1):
                yield from _other_status(str(name), value, table, is_path_stated=skipped is not None)
        elif isinstance(value, Mapping) and folded in _WRAPPERS:
            if is_innermost:
                yield from _object(str(name), folded, value, table, depth=1)
        else:
            found = _read(str(name), folded, value, table, only_known=folded not in _OUTCOMES)
            if found is not None:
                yield found


def _other_status(field: str, value: Any, table: StatusTable, *, is_path_stated: bool) -> Iterator[Qualifier]:
    """`state` beside `status`, or the reverse. A neutral status has no outcome.

    A value in no table may be a state of the job, which is then not over. It may also be a part of a country:
    where the path to the status is stated, it does not count.
    """
    if not isinstance(value, str) or normalize(value) in NEUTRAL_STATUSES:
        return
    found = _word(field, value, table)
    if not found.is_empty and (found.meaning is not None or not is_path_stated):
        yield found


def _object(
    path: str, folded: str, holder: Mapping[Any, Any], table: StatusTable, *, depth: int
) -> Iterator[Qualifier]:
    """An object such as `result` counts by its own status and outcome; without any it is only a result.

    A `conclusion` is never only a result: with one that cannot be parsed, the outcome is unclear.
    """
    found = list(_nested(path, holder, table, depth=depth))
    if holder and not found and folded in _CONCLUSIONS:
        found = [Qualifier(path, str(dict(holder))[:80], None)]
    yield from found


def _nested(path: str, holder: Mapping[Any, Any], table: StatusTable, *, depth: int) -> Iterator[Qualifier]:
    last = _folded(path.rpartition(".")[2])
    for name, value in holder.items():
        folded, where = _folded(_joined(last, name)), f"{path}.{name}"
        if isinstance(value, Mapping) and folded in _WRAPPERS:
            if depth < MAX_DEPTH:
                yield from _object(where, folded, value, table, depth=depth + 1)
        elif folded in STATUS_FIELDS:
            if isinstance(value, str):
                yield _word(where, value, table)
        else:
            found = _read(where, folded, value, table, only_known=folded not in _OUTCOMES)
            if found is not None:
                yield found


def _read(
    field: str, folded: str, value: Any, table: StatusTable, *, only_known: bool = False
) -> Qualifier | None:
    """Read one field by its name; None: it means nothing."""
    if folded in _CODES_AND_SIGNALS:
        no_code = isinstance(value, Mapping | list) or (folded in _SIGNALS and _is_nothing(value))
        return None if no_code else _code(field, folded, value, table)
    if folded in _FAILURE_FLAGS:
        fails = not _is_nothing(value)
        return Qualifier(field, str(value)[:80], Meaning.FAILED, is_word=False) if fails else None
    flag = {"true": True, "false": False}.get(normalize(value)) if isinstance(value, bool | str) else None
    meaning: Meaning | None = None
    if folded in _SUCCESS_FLAGS and flag is not None:
        meaning = Meaning.SUCCEEDED if flag else Meaning.FAILED
    elif folded in _SUCCESS_FLAGS:
        return _success(field, value, table)
    elif folded in _CANCEL_FLAGS and flag:
        meaning = Meaning.CANCELLED
    elif (folded in _ACTIVE_FLAGS and flag) or (folded in _OVER_FLAGS and flag is False):
        meaning = Meaning.RUNNING
    if meaning is not None:
        return Qualifier(field, str(value).lower(), meaning, is_word=False)
    if isinstance(value, Mapping | list):
        return Qualifier(field, str(value)[:80], None) if value and folded in _CONCLUSIONS else None
    return None if only_known else _word(field, value, table)


def _success(field: str, value: Any, table: StatusTable) -> Qualifier | None:
    """`success` with a value that is not a boolean: a status, or a number that may be a count."""
    if isinstance(value, int | float) and value == 0:
        return Qualifier(field, str(value), None, is_word=False)  # a count of zero, or false
    if not isinstance(value, str):
        return None
    meaning = Meaning.FAILED if normalize(value) in ("no", "0") else table.get(normalize(value))
    return None if meaning is None else Qualifier(field, value[:80], meaning, is_word=False)


def _is_nothing(value: Any, depth: int = 0) -> bool:
    """Whether an error is absent: null, 0, false, empty, or an object or a list of nothing else."""
    if isinstance(value, Mapping | list) and depth < MAX_DEPTH:
        inside = value.values() if isinstance(value, Mapping) else value
        return all(_is_nothing(each, depth + 1) for each in inside)
    return not value or (isinstance(value, str) and normalize(value) in _FALSE)


def _word(field: str, value: Any, table: StatusTable) -> Qualifier:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    meaning = table.get(normalize(text))
    is_empty = meaning is None and normalize(text) in _NOTHING
    return Qualifier(field, text[:80], meaning, is_empty=is_empty)


def _code(field: str, folded: str, value: Any, table: StatusTable) -> Qualifier:
    """An exit code, a signal, or a result code, which may count otherwise than from 0."""
    found = _word(field, value, table)
    if found.meaning is not None or found.is_empty or isinstance(value, bool):
        return found
    try:
        number = float(value)
    except (TypeError, ValueError):
        is_named = folded in _SIGNALS and found.value.upper().startswith("SIG")
        return replace(found, meaning=Meaning.FAILED, is_word=False) if is_named else found
    if folded == "resultcode":
        is_good = number == 0 or 200 <= number < 300
        return replace(found, meaning=Meaning.SUCCEEDED if is_good else None, is_word=False)
    return replace(found, meaning=Meaning.SUCCEEDED if number == 0 else Meaning.FAILED, is_word=False)


def _inside(holder: Any, step: object) -> Any:
    if isinstance(step, int):
        is_list = isinstance(holder, list) and -len(holder) <= step < len(holder)
        return holder[step] if is_list else None
    return holder.get(step) if isinstance(holder, Mapping) else None


def _folded(name: object) -> str:
    return str(name).casefold().replace("_", "").replace("-", "").replace(" ", "")
