"""Copies values as they are now, converted to what journals can store.

Capture runs in the observed code, so the usual small values take a fast path. What cannot be stored becomes
readable text: NaN and infinities, numbers beyond 38 digits, empty or mixed sets, deep nesting, cycles, and
objects of any other kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from enum import Enum
from itertools import islice
from pathlib import PurePath
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from longwatch.recording.secret_names import REDACTED, SecretNames

if TYPE_CHECKING:
    from longwatch.recording.truncation import OmittedBytes

MAX_DEPTH = 28  # DynamoDB allows 32 levels, of which the payload and its item take some
MAX_DIGITS = 38
MAX_INTEGER = 10**MAX_DIGITS
SMALLEST_FLOAT, LARGEST_FLOAT = 1e-130, 9.9e125  # DynamoDB's range
REPR_CHARACTERS = 200
PLAIN_CHARACTERS = 200
MAX_PLAIN = 2**53
LONGEST_TOKEN = 4_096  # characters
NAME_CHARACTERS = 1_000  # of one key; DynamoDB allows 64 KB
SHORTENED = re.compile(r"…\[shortened, (\d+) characters\]\Z")
BYTES_IN_ALL = re.compile(r"\[(\d+) bytes in all\]")
_SPACE = re.compile(r"\s")
LONGEST_MARKER = 50  # characters
# The fields that decide what a run is and how it ended. They get room before all other fields.
DECIDING_FIELDS = (
    "kind",
    "name",
    "status",
    "error_code",
    "parent_run_id",
    "written_for",
    "attempt",
    "execution",
    "process",
)
NAMED_VALUES = (("name", "value"), ("Name", "Value"), ("key", "value"), ("Key", "Value"))
NAMED_VALUE_FIELDS = 4  # at most, in a map of one name and its value
_STANDARD_NAMES = SecretNames()  # without those of `redact_keys`
CONTAINER_WEIGHT, ITEM_WEIGHT = 50, 8  # roughly what Python needs for them, in bytes


class CaptureLimits:
    """How much of a value is captured."""

    __slots__ = ("characters", "depth", "is_summary", "items", "total")

    def __init__(
        self, *, characters: int, items: int, depth: int, total: int, is_summary: bool = False
    ) -> None:
        self.characters = characters  # of one text
        self.items = items  # of one list, map or set
        self.depth = depth
        self.total = total  # bytes of the whole copy in memory, roughly
        self.is_summary = is_summary  # the policy is `summary`


SUMMARY = CaptureLimits(characters=1_000, items=20, depth=4, total=20_000, is_summary=True)
# Messages of a model are four levels themselves: the list, a message, its parts, a part.
MESSAGES_SUMMARY = CaptureLimits(characters=1_000, items=20, depth=8, total=20_000, is_summary=True)
# Beyond the largest payload that can be stored, so that `truncation` cuts payloads and not capture. Only tens
# of thousands of empty maps or lists take more memory than that before they fill an event.
FULL = CaptureLimits(characters=400_000, items=200_000, depth=MAX_DEPTH, total=3_200_000)
CAPTURES: Mapping[str, CaptureLimits | None] = {"off": None, "summary": SUMMARY, "full": FULL}


def message_limits(limits: CaptureLimits) -> CaptureLimits:
    """The limits for the messages of a model, under the same policy."""
    return MESSAGES_SUMMARY if limits is SUMMARY else limits


def capture_fields(
    fields: Mapping[str, object], limits: CaptureLimits, secrets: SecretNames, unredacted: Container[str] = ()
) -> tuple[dict[str, object], int]:
    """Copy named values with secrets blanked by name; returns the copy and its approximate bytes.

    `redact_keys` does not apply to the `unredacted` fields.
    """
    copied: dict[str, object] = {}
    for name, value in fields.items():  # the usual case: only short texts and small numbers
        if name in secrets and secrets.hides(name, value) and name not in unredacted:
            copied[name] = REDACTED
        elif (type(value) is str and len(value) <= PLAIN_CHARACTERS) or is_plain(value):
            copied[name] = value
        else:
            capture = Capture(limits, secrets, unredacted)
            return capture.fields(fields), capture.total_weight()
    return copied, 0


def capture_value(value: object, limits: CaptureLimits, secrets: SecretNames) -> tuple[object, int]:
    """Copy one value; returns the copy and its approximate bytes."""
    if is_plain(value):
        return value, 0
    capture = Capture(limits, secrets)
    return capture.value(value), capture.total_weight()


class CutWeight(int):
    """The weight of a copy that leaves something out, with the stored bytes that it leaves out."""

    omitted_json: int
    omitted_item: int  # in DynamoDB's form
    is_exact: bool  # False: the bytes are a minimum
    is_summary: bool  # only the summary policy left something out


def combined_weight(one: int, other: int) -> int:
    """The first weight, with what either of the two copies leaves out."""
    cuts = [each for each in (one, other) if isinstance(each, CutWeight)]
    if not cuts:
        return one
    weight = CutWeight(one)
    weight.omitted_json = sum(cut.omitted_json for cut in cuts)
    weight.omitted_item = sum(cut.omitted_item for cut in cuts)
    weight.is_exact = all(cut.is_exact for cut in cuts)
    weight.is_summary = all(cut.is_summary for cut in cuts)
    return weight


def is_plain(value: object) -> bool:
    """Whether the value is immutable, small and can be stored unchanged."""
    kind = type(value)
    if kind is str:
        return len(value) <= PLAIN_CHARACTERS  # type: ignore[arg-type]
    if kind is int:
        return -MAX_PLAIN < value < MAX_PLAIN  # type: ignore[operator]
    return value is None or kind is bool


class Capture:
    """Copies one payload. Afterwards, `weight` is its approximate size in memory, in bytes."""

    __slots__ = ("_limits", "_omitted", "_path", "_secrets", "_unredacted", "weight")

    def __init__(self, limits: CaptureLimits, secrets: SecretNames, unredacted: Container[str] = ()) -> None:
        self._limits = limits
        self._secrets = secrets
        self._unredacted = unredacted  # top-level fields
        self._path: list[int] = []  # ids of the enclosing containers, to detect cycles
        self.weight = 0
        self._omitted: OmittedBytes | None = None  # None: complete

    def total_weight(self) -> int:
        """The weight; a `CutWeight` if something is left out."""
        if self._omitted is None:
            return self.weight
        weight = CutWeight(self.weight)
        weight.omitted_json, weight.omitted_item = self._omitted.json, self._omitted.item
        weight.is_exact, weight.is_summary = self._omitted.is_exact, self._limits.is_summary
        return weight

    def fields(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Copy a map of named values with secrets blanked by name."""
        copied = {name: self._field(name, fields[name]) for name in DECIDING_FIELDS if name in fields}
        return {
            name: copied[name] if name in copied else self._field(name, value)
            for name, value in fields.items()
        }

    def _field(self, name: str, value: object) -> object:
        if name not in self._unredacted:
            return REDACTED if self._secrets.hides(name, value) else self.value(value)
        secrets, self._secrets = self._secrets, _STANDARD_NAMES
        try:
            return self.value(value)
        finally:
            self._secrets = secrets

    def value(self, value: object) -> object:
        kind = type(value)
        if kind is str:
            return self._text(cast(str, value))
        if value is None or kind is bool:
            return value
        if kind is int:
            return _whole(cast(int, value))
        if kind is float:
            return _number(cast(float, value))
        self.weight += CONTAINER_WEIGHT
        if self.weight > self._limits.total:
            return self._omit_value(value, f"[{_kind(value)} left out: the event is full]")
        try:
            return self._other(value)
        except BaseException as error:  # an object must never break the observed code
            if is_from_signal(error):
                raise
            return f"<{_kind(value)} that cannot be shown: {_kind(error)}>"

    def _text(self, text: str) -> str:
        room = min(self._limits.characters, max(0, self._limits.total - self.weight))
        if len(text) <= room:
            self.weight += len(text)
            return text if text.isascii() else encodable(text)
        self.weight += room
        shortened_before = SHORTENED.search(text, len(text) - LONGEST_MARKER)
        if shortened_before and shortened_before.start() <= room:
            return encodable(text)  # it was captured before
        # Half a token is still a secret, and no pattern recognises it: redact before the cut. A secret that
        # the cut would split ends at the next space; one with spaces is blanked up to the end.
        space = _SPACE.search(text, room, room + LONGEST_TOKEN)
        end = space.start() if space else room + LONGEST_TOKEN
        beginning = redact_text(encodable(text[:end]))
        marker = truncation_marker(len(text))
        omitted = self._omissions()
        omitted.text(beginning[room:] + text[end:])
        omitted.marker(marker, json=-2, item=0)
        return f"{beginning[:room]}{marker}"

    def _other(self, value: object) -> object:
        match value:
            case Mapping():
                return self._inside(value, self._map)
            case list() | tuple():
                if isinstance(value, tuple) and hasattr(value, "_asdict"):
                    return self._inside(value._asdict(), self._map)
                return self._inside(value, self._list)
            case set() | frozenset():
                return self._inside(value, self._set)
            case bytes() | bytearray() | memoryview():
                return self._bytes(bytes(value))
            case str():
                return self._text(str.__str__(value))
            case Enum():
                return self.value(value.value)
            case bool() | int() | float():
                return self.value(int(value) if isinstance(value, int) else float(value))
            case Decimal():
                return decimal_number(value)
            case datetime() | date() | time():
                return value.isoformat()
            case timedelta():
                return _number(value.total_seconds())
            case PurePath():
                return self._text(str(value))
            case BaseException():
                return self._text(error_text(value))
            case type():
                return self._text(f"<class {value.__qualname__}>")
        return self._object(value)

    def _object(self, value: object) -> object:
        if type(value).__module__ == "uuid":  # by its name: importing uuid would cost every program
            return str(value)
        if hasattr(value, "__dataclass_fields__"):
            from dataclasses import fields  # loaded on demand

            attributes = {each.name: getattr(value, each.name, None) for each in fields(cast(Any, value))}
            return self._inside(value, lambda _: self._map(attributes))
        dump = getattr(type(value), "model_dump", None)  # pydantic models
        if callable(dump):
            return self._inside(value, lambda it: self._map(dump(it)))
        if hasattr(value, "__qualname__"):
            return self._text(f"<{_kind(value)} {value.__qualname__}>")
        return self._text(truncate_text(redact_text(repr(value)), REPR_CHARACTERS))

    def _inside(self, value: object, copy: Callable[[Any], object]) -> object:
        identity = id(value)
        if identity in self._path:
            return f"[{_kind(value)} that contains itself]"
        if len(self._path) >= self._limits.depth:
            size = f" of {len(value)}" if isinstance(value, Sequence | Mapping) else ""
            return self._omit_value(value, f"[{_kind(value)}{size}, nested too deep to keep]")
        self._path.append(identity)
        try:
            return copy(value)
        finally:
            self._path.pop()

    def _map(self, value: Mapping[Any, object]) -> dict[str, object]:
        copied: dict[str, object] = {}
        for key, item in self._some(value.items()):
            is_secret = key in self._secrets and self._secrets.hides(key, item)
            name = self._name(key)
            if name in copied:  # 1 and "1" are two keys in Python
                name = f"{name}′{len(copied)}"
            copied[name] = REDACTED if is_secret else self.value(item)
        if len(value) > len(copied):
            marker = f"[{len(value) - len(copied)} more]"
            omitted = self._omissions()
            omitted.entries(islice(value.items(), len(copied), None), len(value) - len(copied))
            omitted.marker(marker, json=7, item=4)  # `,"…":` is seven bytes
            copied["…"] = marker
        elif len(copied) <= NAMED_VALUE_FIELDS:
            self._hide_named_value(copied)
        return copied

    def _hide_named_value(self, copied: dict[str, object]) -> None:
        """Blank the secret in `{"name": "DB_PASSWORD", "value": …}`, the form of container environments."""
        for name_field, value_field in NAMED_VALUES:
            if value_field in copied and self._secrets.hides(copied.get(name_field), copied[value_field]):
                copied[value_field] = REDACTED

    def _name(self, key: object) -> str:
        try:
            text = key if type(key) is str else str(key)
        except BaseException as error:  # one failing key must not lose the whole map
            if is_from_signal(error):
                raise
            text = f"<{_kind(key)}>"
        return self._text(
            text if len(text) <= NAME_CHARACTERS else truncate_text(redact_text(text), NAME_CHARACTERS)
        )

    def _list(self, value: Sequence[object]) -> list[object]:
        copied = [self.value(item) for item in self._some(value)]
        if len(copied) == 2 and self._is_header(copied[0]):
            copied[1] = REDACTED
        return copied if len(copied) == len(value) else self._with_rest(copied, value)

    def _is_header(self, name: object) -> bool:
        """Whether `["X-Api-Key", …]` is a secret header. `["password", "email"]` is a list of names."""
        return name in self._secrets and (
            "-" in str(name) or str(name).lower() in ("authorization", "cookie")
        )

    def _with_rest(self, copied: list[object], whole: Collection[object]) -> list[object]:
        marker = f"[{len(whole) - len(copied)} more]"
        omitted = self._omissions()
        omitted.items(islice(whole, len(copied), None), len(whole) - len(copied))
        omitted.marker(marker, json=1, item=1)
        return [*copied, marker]

    def _set(self, value: frozenset[object] | set[object]) -> object:
        if not value:
            return "set()"
        copied = [self.value(item) for item in self._some(value)]
        kinds = {float if type(item) in (int, Decimal) else type(item) for item in copied}
        if len(copied) == len(value) and kinds in ({str}, {float}, {bytes}):
            return set(copied)
        copied.sort(key=repr)
        if len(copied) == len(value):
            return copied
        self._omissions().is_exact = False  # a complete set is encoded differently
        return self._with_rest(copied, value)

    def _some(self, items: Iterable[Any]) -> Iterator[Any]:
        """As many items as the limits allow."""
        for item in list(islice(items, self._limits.items)):  # a copy: another thread may change them
            if self.weight > self._limits.total:
                return
            self.weight += ITEM_WEIGHT
            yield item

    def _omissions(self) -> OmittedBytes:
        if self._omitted is None:
            from longwatch.recording.truncation import OmittedBytes  # loaded when something is cut

            self._omitted = OmittedBytes(self._secrets)
        return self._omitted

    def _omit_value(self, value: object, marker: str) -> str:
        omitted = self._omissions()
        omitted.value(value)
        omitted.marker(marker, json=0, item=0)
        return marker

    def _bytes(self, value: bytes) -> object:
        room = min(self._limits.characters, max(0, self._limits.total - self.weight))
        self.weight += min(room, len(value))
        end = len(value) if len(value) <= room else room + LONGEST_TOKEN
        text = value[:end].decode("latin-1")  # one character per byte, so token patterns match
        clean = redact_text(text)
        beginning = value[:end] if clean == text else clean.encode("latin-1")
        if len(value) <= room:
            return beginning
        marker = bytes_marker(len(value))
        omitted = self._omissions()
        omitted.bytes(len(beginning) + max(0, len(value) - end), copied=len(beginning[:room]))
        omitted.marker(marker, json=3, item=5)  # a list of two
        return [beginning[:room], marker]


def redact_text(text: str) -> str:
    """The text without secrets. The patterns are compiled when the first text is cut."""
    from longwatch.recording import redaction

    return redaction.redact_text(text)


def encodable(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate is escaped as `\\ud800`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def truncate_text(text: str, characters: int) -> str:
    """The beginning of a text, with a marker that states its length."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}{truncation_marker(len(text))}"


def truncation_marker(length: int) -> str:
    """The marker at the end of a truncated text; `SHORTENED` matches it."""
    return f"…[shortened, {length} characters]"


def bytes_marker(length: int) -> str:
    """The marker next to the beginning of truncated bytes; `BYTES_IN_ALL` matches it."""
    return f"[{length} bytes in all]"


def error_text(error: BaseException) -> str:
    """The class and message of an exception, as events state it."""
    try:
        # LangGraph cancels tasks with a bare object that marks who did it.
        message = "" if error.args and type(error.args[0]) is object else str(error)
    except BaseException as fault:  # without its text, the class has to do
        if is_from_signal(fault):
            raise
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _kind(value: object) -> str:
    return encodable(type.__dict__["__name__"].__get__(type(value)))  # a metaclass may override `__name__`


def _whole(value: int) -> int | str:
    if -MAX_INTEGER < value < MAX_INTEGER:
        return value
    if value.bit_length() > 4 * REPR_CHARACTERS:  # converting a huge number is slow, and may be refused
        return f"<int of {value.bit_length()} bits>"
    return str(value)


def _number(value: float) -> int | float | str:
    if value != value or math.isinf(value):
        return str(value)  # nan, inf, -inf
    if value.is_integer() and abs(value) < MAX_INTEGER:
        return int(value)  # DynamoDB stores 1.0 as 1: one form everywhere
    return value if SMALLEST_FLOAT <= abs(value) <= LARGEST_FLOAT else str(value)


def decimal_number(value: Decimal) -> int | float | Decimal | str:
    """The simplest type that represents this number exactly; text if no journal can store it."""
    if not value.is_finite():
        return str(value)
    # Without trailing zeros, in a separate context: the program's may round.
    value = value.normalize(Context(prec=len(value.as_tuple().digits), traps=[]))
    if len(value.as_tuple().digits) > MAX_DIGITS or not -130 <= value.adjusted() <= 125:
        return str(value) if value else 0
    if value == value.to_integral_value():
        return int(value) if value.copy_abs() < MAX_INTEGER else str(value)
    as_float = float(value)
    return as_float if Decimal(repr(as_float)) == value else value


def is_from_signal(error: BaseException) -> bool:
    """Whether a signal handler raised this (Ctrl-C, or a handler that exits), and not the captured object.

    Both arrive as an exception out of the object's `__repr__`, `__str__`, `__iter__` or a property. The
    object's must not reach the observed code, which called none of these; the signal's must. A handler
    written in Python is a frame that holds the frame it interrupted, and Python's own handler of Ctrl-C
    raises at an instruction other than `raise`. If neither applies, a KeyboardInterrupt (such as one raised
    by an extension module) counts as a signal's and anything else as the object's.
    """
    if not isinstance(error, KeyboardInterrupt | SystemExit):
        return False
    last, step = error.__traceback__, error.__traceback__
    while step is not None:
        if _is_signal_handler(step.tb_frame):
            return True
        last, step = step, step.tb_next
    return isinstance(error, KeyboardInterrupt) and not (last is not None and _is_at_raise(last))


def _is_signal_handler(frame: FrameType) -> bool:
    interrupted = frame.f_back
    if interrupted is None:
        return False
    values = list(frame.f_locals.values())
    values += [part for value in values if type(value) is tuple for part in value]  # `lambda *_: …`
    return any(value is interrupted for value in values)


def _is_at_raise(step: TracebackType) -> bool:
    from opcode import opmap  # loaded on demand

    return step.tb_frame.f_code.co_code[step.tb_lasti] == opmap["RAISE_VARARGS"]
