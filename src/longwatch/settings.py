"""Settings: `longwatch.toml`, then the environment, then defaults. Every value remembers where it came from.

A name in the environment beats the file. `.agentify/config.json`, where it exists, gives the table's name and
region if nothing else does. A relative path in a file is relative to that file. All mistakes are reported at
once. What only a file needs is imported when there is one: every process that records loads this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longwatch.errors import InvalidSettings

FILE_NAME = "longwatch.toml"
AGENTIFY_FILE = Path(".agentify") / "config.json"
DEFAULT_TABLE = "agentify-workflow-events"
MAX_PAYLOAD_BYTES = 350 * 1024  # document 001: leaves 50 KB of DynamoDB's 400 KB for keys and attributes
CAPTURE_POLICIES = ("off", "summary", "full")
LAYOUTS = ("workflow", "session")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that people can set: its name in the file, its variable, how to read it, what it is for."""

    key: str  # dotted, as in longwatch.toml
    attribute: str
    variable: str
    default: object
    read: Callable[[object], object]
    about: str
    example: object = None  # for `longwatch init`, where there is no default to show


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for this process."""

    journal: str
    table_name: str = DEFAULT_TABLE
    region: str | None = None
    endpoint: str | None = None
    layout: str = "workflow"
    enabled: bool = True
    capture: str = "summary"
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    redact_keys: tuple[str, ...] = ()
    ttl_hours: float | None = None  # None: what the journal's layout says; 0: never expire
    queue_events: int = 50_000
    outbox: str | None = None  # None: outbox.db in the data directory
    carry_context: bool = True
    origins: Mapping[str, str] = field(default_factory=dict)  # key -> where its value came from
    file: Path | None = None

    @property
    def outbox_path(self) -> Path:
        """Where events wait that could not be shipped."""
        return Path(self.outbox).expanduser() if self.outbox else data_directory() / "outbox.db"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be text")
    return value


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError("must be true or false")


def _whole(lowest: int, highest: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
            raise ValueError(f"must be a whole number from {lowest} to {highest}")
        return number

    return read


def _hours(value: object) -> float:
    try:
        number = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
        )
    except ValueError:
        number = -1.0
    if not 0 <= number < 1_000_000:
        raise ValueError("must be a number of hours, 0 for never")
    return number


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError("must be a list of names")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "journal",
        "journal",
        "LONGWATCH_JOURNAL",
        None,
        _text,
        "Address of the journal: sqlite:///file.db, dynamodb://table?region=…, memory://",
        example="sqlite:///longwatch.db",
    ),
    Setting(
        "infrastructure.dynamodb.table_name",
        "table_name",
        "LONGWATCH_TABLE_NAME",
        DEFAULT_TABLE,
        _text,
        "Table that dynamodb:// means when it names none",
    ),
    Setting(
        "infrastructure.dynamodb.region",
        "region",
        "LONGWATCH_REGION",
        None,
        _text,
        "AWS region of the table; without it the AWS SDK's own rules apply",
        example="eu-central-1",
    ),
    Setting(
        "infrastructure.dynamodb.endpoint",
        "endpoint",
        "LONGWATCH_ENDPOINT",
        None,
        _text,
        "Another address for DynamoDB, such as a local engine's",
        example="http://127.0.0.1:8000",
    ),
    Setting(
        "infrastructure.dynamodb.layout",
        "layout",
        "LONGWATCH_LAYOUT",
        "workflow",
        _one_of(*LAYOUTS),
        "How events are laid out in the table: workflow or session",
    ),
    Setting(
        "recording.enabled",
        "enabled",
        "LONGWATCH_ENABLED",
        True,
        _boolean,
        "false: decorated functions run untouched and nothing is recorded",
    ),
    Setting(
        "recording.capture",
        "capture",
        "LONGWATCH_CAPTURE",
        "summary",
        _one_of(*CAPTURE_POLICIES),
        "What is kept of arguments and results: off, summary (short forms) or full",
    ),
    Setting(
        "recording.max_payload_bytes",
        "max_payload_bytes",
        "LONGWATCH_MAX_PAYLOAD_BYTES",
        MAX_PAYLOAD_BYTES,
        _whole(1024, MAX_PAYLOAD_BYTES),
        "Larger payloads are shortened to this, with their structure kept",
    ),
    Setting(
        "recording.redact_keys",
        "redact_keys",
        "LONGWATCH_REDACT_KEYS",
        (),
        _names,
        "Further field names whose values are never stored",
    ),
    Setting(
        "recording.ttl_hours",
        "ttl_hours",
        "LONGWATCH_TTL_HOURS",
        None,
        _hours,
        "Events expire after this many hours; 0 is never (default: 24 in layout workflow, else never)",
        example=24,
    ),
    Setting(
        "recording.queue_events",
        "queue_events",
        "LONGWATCH_QUEUE_EVENTS",
        50_000,
        _whole(100, 10_000_000),
        "How many events may wait in memory to be written",
    ),
    Setting(
        "recording.outbox",
        "outbox",
        "LONGWATCH_OUTBOX",
        None,
        _text,
        "File where events wait that could not be shipped (default: outbox.db in the data directory)",
        example="outbox.db",
    ),
    Setting(
        "recording.carry_context",
        "carry_context",
        "LONGWATCH_CARRY_CONTEXT",
        True,
        _boolean,
        "Threads and thread pools started inside a run belong to it",
    ),
)


def load_settings(*, directory: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings that hold in this directory. Raises `InvalidSettings` with every mistake found."""
    environment = os.environ if environment is None else environment
    folders = _folders(directory)
    mistakes: list[str] = []
    file = _find_file(folders, environment, mistakes)
    written = _read_toml(file, mistakes) if file else {}
    foreign = _first_file(folders, AGENTIFY_FILE)
    agentify = _read_agentify(foreign, mistakes) if foreign else {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        raw, origin = setting.default, "default"
        if setting.key in agentify:
            raw, origin = agentify[setting.key], str(foreign)
        if setting.key in written:
            raw, origin = written.pop(setting.key), str(file)
        if environment.get(setting.variable):
            raw, origin = environment[setting.variable], setting.variable
        if origin != "default":
            try:
                raw = setting.read(raw)
            except ValueError as error:
                mistakes.append(f"{origin}: {setting.key} {error}, not {raw!r}")
        values[setting.attribute] = raw
        origins[setting.key] = origin
    mistakes += [_unknown(str(file), key) for key in written]
    if mistakes:
        raise InvalidSettings(mistakes)
    data = data_directory(environment)
    base = {str(file): file.resolve().parent} if file else {}
    here = folders[0] if folders else Path()
    values["journal"] = absolute_journal(
        values["journal"] or sqlite_url(data / "longwatch.db"), base.get(origins["journal"], here)
    )
    outbox = Path(values["outbox"] or data / "outbox.db").expanduser()
    values["outbox"] = str(base.get(origins["recording.outbox"], here) / outbox)
    return Settings(**values, origins=origins, file=file)


def _find_file(folders: Sequence[Path], environment: Mapping[str, str], mistakes: list[str]) -> Path | None:
    """`LONGWATCH_CONFIG`, else the nearest `longwatch.toml` here or above."""
    chosen = environment.get("LONGWATCH_CONFIG")
    if not chosen:
        return _first_file(folders, Path(FILE_NAME))
    path = Path(chosen).expanduser()
    if path.is_file():
        return path
    mistakes.append(f"LONGWATCH_CONFIG names {chosen!r}, which is not a file")
    return None


def _folders(directory: Path | None) -> Sequence[Path]:
    """This folder and those above it; none if the working directory is gone."""
    try:
        here = Path.cwd() if directory is None else directory.resolve()
    except OSError:
        return ()
    return (here, *here.parents)


def _first_file(folders: Sequence[Path], name: Path) -> Path | None:
    for folder in folders:
        try:
            if (folder / name).is_file():
                return folder / name
        except OSError:
            continue  # no right to look there, so no settings of ours either
    return None


def absolute_journal(url: str, folder: Path) -> str:
    """The address with a relative SQLite path completed: events that wait are shipped from anywhere."""
    scheme, _, path = url.partition(":///")
    if scheme != "sqlite" or not path or path.startswith(("/", "~")):
        return url
    return f"{sqlite_url(folder)}/{path}"


def sqlite_url(path: Path) -> str:
    """The address of a SQLite file, with what an address would take for something else written out."""
    text = str(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return f"sqlite:///{text}"


def data_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where this user's journal and outbox live unless settings say otherwise."""
    environment = os.environ if environment is None else environment
    if environment.get("LONGWATCH_DATA"):
        return Path(environment["LONGWATCH_DATA"]).expanduser()
    home = Path(environment.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "longwatch"
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "longwatch"
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "longwatch"


def _read_toml(path: Path, mistakes: list[str]) -> dict[str, object]:
    import tomllib

    try:
        return _flat(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        mistakes.append(f"{path}: {error}")
        return {}


def _read_agentify(path: Path, mistakes: list[str]) -> dict[str, object]:
    """The table's name and region from an existing project's `.agentify/config.json`."""
    import json

    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        mistakes.append(f"{path}: {error}")
        return {}
    for name in ("infrastructure", "dynamodb"):
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict):  # another program's file: it need not speak of a table
        return {}
    names = {"tableName": "table_name", "region": "region"}
    return {f"infrastructure.dynamodb.{names[key]}": table[key] for key in names if table.get(key)}


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _unknown(where: str, key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, [setting.key for setting in SETTINGS], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{where}: unknown setting {key}{hint}"
