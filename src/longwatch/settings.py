"""Settings from the environment, `longwatch.toml` and defaults, in this order, each with its origin.

`.agentify/config.json`, where it exists, supplies the table's name and region if nothing else does. Relative
paths in a file are relative to that file. All mistakes are reported at once. Every process that records loads
this module, so parsers are imported only when there is a file to parse.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwatch.errors import InvalidSettings
from longwatch.settings_catalog import (
    ALL_SDKS,
    DEFAULT_OTHER_STATUSES,
    DEFAULT_TABLE,
    MAX_PAYLOAD_BYTES,
    SETTINGS,
    Setting,
)

if TYPE_CHECKING:
    from longwatch.model.prices import Price
    from longwatch.model.retention import RetentionRule

__all__ = [
    "AGENTIFY_FILE",
    "DEFAULT_TABLE",
    "FILE_NAME",
    "MAX_PAYLOAD_BYTES",
    "NOTIFY_VARIABLE",
    "SETTINGS",
    "Setting",
    "Settings",
    "absolute_journal",
    "data_directory",
    "load_settings",
    "make_private_directory",
    "sqlite_url",
]

FILE_NAME = "longwatch.toml"
NOTIFY_VARIABLE = "LONGWATCH_NOTIFY"
AGENTIFY_FILE = Path(".agentify") / "config.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of this process."""

    journal: str
    documents: str | None = None  # None: beside the journal
    table_name: str = DEFAULT_TABLE
    region: str | None = None
    endpoint: str | None = None
    layout: str = "workflow"
    fast_query: bool = True
    enabled: bool = True
    capture: str = "summary"
    attach: tuple[str, ...] = (ALL_SDKS,)
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    redact_keys: tuple[str, ...] = ()
    ttl_hours: float | None = None  # None: the default of the journal's layout; 0: never expire
    queue_events: int = 50_000
    exit_timeout_seconds: float = 5.0
    outbox: str | None = None  # None: outbox.db in the data directory
    carry_context: bool = True
    heartbeat_seconds: float | None = None  # None: the journal's default; 0: none
    learned_cadence: bool = False
    other_statuses: tuple[str, ...] = DEFAULT_OTHER_STATUSES
    server_host: str = "127.0.0.1"
    server_port: int = 8321
    server_allow_hosts: tuple[str, ...] = ()
    server_allow_origins: tuple[str, ...] = ()
    server_trusted_proxies: tuple[str, ...] = ()
    server_search_index: bool = True
    page_url: str | None = None  # for links in notifications
    notification_addresses: tuple[str, ...] = ()
    server_mcp_write: bool = False
    watches: Mapping[str, object] = field(default_factory=dict)  # name -> table, read by `executions.sources`
    prices: Mapping[str, Price] = field(default_factory=dict)  # by the name of the model
    retention: tuple[RetentionRule, ...] = ()
    notify: Sequence[object] = ()  # tables, read by `notifications.rules`
    origins: Mapping[str, str] = field(default_factory=dict)  # key -> file, variable or `default`
    file: Path | None = None

    @property
    def outbox_path(self) -> Path:
        """The file of events that could not be delivered."""
        return Path(self.outbox).expanduser() if self.outbox else data_directory() / "outbox.db"


def lifetime_seconds(ttl_hours: float | None, default: int | None) -> int | None:
    """When an event expires by the setting `ttl_hours`, else by the journal's default; None: never."""
    if ttl_hours is None:
        return default
    return max(1, int(ttl_hours * 3600)) if ttl_hours else None


def load_settings(*, directory: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Load the settings for this directory. Raises `InvalidSettings` with every mistake found."""
    environment = os.environ if environment is None else environment
    folders = _folders(directory)
    mistakes: list[str] = []
    file = _find_file(folders, environment, mistakes)
    tables = _read_toml(file, mistakes) if file else {}
    watches: Any = tables.pop("watches", {})
    if not isinstance(watches, Mapping):
        mistakes.append(f"{file}: invalid watches {watches!r}. Use tables such as [watches.deploys]")
    notify: Any = tables.pop("notify", [])
    if environment.get(NOTIFY_VARIABLE):  # in place of the rules in the file
        notify = _read_notify(environment[NOTIFY_VARIABLE], mistakes)
    if not isinstance(notify, list):
        mistakes.append(
            f'{file}: invalid notify {notify!r}. Use tables such as [[notify]] with name = "failed"'
        )
    retention = _read_retention(tables.pop("retention", []), str(file), mistakes)
    prices = _read_prices(tables.pop("prices", {}), str(file), mistakes)
    from_file = _flatten(tables)
    agentify_file = _first_file(folders, AGENTIFY_FILE)
    agentify = _read_agentify(agentify_file, mistakes) if agentify_file else {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        raw, origin = setting.default, "default"
        if setting.key in agentify:
            raw, origin = agentify[setting.key], str(agentify_file)
        if setting.key in from_file:
            raw, origin = from_file.pop(setting.key), str(file)
        if environment.get(setting.variable):
            raw, origin = environment[setting.variable], setting.variable
        if origin != "default":
            try:
                raw = setting.read(raw)
            except ValueError as error:
                mistakes.append(f"{origin}: {setting.key} {error}, not {raw!r}")
        values[setting.attribute] = raw
        origins[setting.key] = origin
    mistakes += [_describe_unknown(str(file), key) for key in from_file]
    if mistakes:
        raise InvalidSettings(mistakes)
    data = data_directory(environment)
    base = {str(file): file.resolve().parent} if file else {}
    here = folders[0] if folders else Path()
    values["journal"] = absolute_journal(
        values["journal"] or sqlite_url(data / "longwatch.db"), base.get(origins["journal"], here)
    )
    if values["documents"] is not None:
        values["documents"] = absolute_journal(values["documents"], base.get(origins["documents"], here))
    outbox = Path(values["outbox"] or data / "outbox.db").expanduser()
    values["outbox"] = str(base.get(origins["recording.outbox"], here) / outbox)
    if retention and values["journal"].startswith("dynamodb:"):
        mistakes.append(f"{file}: [[retention]] is for SQLite journals; on DynamoDB, set recording.ttl_hours")
        raise InvalidSettings(mistakes)
    return Settings(
        **values,
        watches=watches,
        prices=prices,
        retention=retention,
        notify=notify,
        origins=origins,
        file=file,
    )


def _find_file(folders: Sequence[Path], environment: Mapping[str, str], mistakes: list[str]) -> Path | None:
    """`LONGWATCH_CONFIG`, else the nearest `longwatch.toml` here or above."""
    chosen = environment.get("LONGWATCH_CONFIG")
    if not chosen:
        return _first_file(folders, Path(FILE_NAME))
    path = Path(chosen).expanduser()
    if path.is_file():
        return path
    mistakes.append(f"LONGWATCH_CONFIG is {chosen!r}, which is not a file")
    return None


def _folders(directory: Path | None) -> Sequence[Path]:
    """This folder and its parents; none if the working directory was deleted."""
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
            continue  # not readable: no settings from there
    return None


def absolute_journal(url: str, folder: Path) -> str:
    """The URL with an absolute SQLite path: `longwatch ship` delivers to it from any directory."""
    scheme, _, path = url.partition(":///")
    if scheme != "sqlite" or not path or path.startswith(("/", "~")):
        return url
    return f"{sqlite_url(folder)}/{path}"


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file, with special characters escaped."""
    text = str(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return f"sqlite:///{text}"


def data_directory(environment: Mapping[str, str] | None = None) -> Path:
    """The default directory of this user's journal and outbox."""
    environment = os.environ if environment is None else environment
    if environment.get("LONGWATCH_DATA"):
        return Path(environment["LONGWATCH_DATA"]).expanduser()
    home = Path(environment.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "longwatch"
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "longwatch"
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "longwatch"


def make_private_directory(path: Path) -> None:
    """Create a directory that only this user can enter, and those above it that are missing, with mode 0700.

    `Path.mkdir(parents=True, mode=…)` applies the mode to the last one only: the data directory would be
    readable by all users if a subdirectory of it was created first.
    """
    missing: list[Path] = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)  # another process may create it at the same time


def _read_toml(path: Path, mistakes: list[str]) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        mistakes.append(f"{path}: {error}")
        return {}


def _read_prices(table: object, origin: str, mistakes: list[str]) -> Mapping[str, Price]:
    """The table `[prices]`: names of models, each with its prices."""
    if not table:
        return {}
    from longwatch.model.price_tables import parse_prices  # only readers of usage need it

    if not isinstance(table, Mapping):
        mistakes.append(f'{origin}: invalid prices {table!r}. Use tables such as [prices."gpt-4o"]')
        return {}
    prices, found = parse_prices(table)
    mistakes += [f"{origin}: {mistake}" for mistake in found]
    return prices


def _read_retention(tables: object, origin: str, mistakes: list[str]) -> tuple[RetentionRule, ...]:
    """The rules in `[[retention]]`."""
    if not tables:
        return ()
    from longwatch.model.retention import parse_retention  # only `serve` and `prune` need it

    rules, found = parse_retention(tables)
    mistakes += [f"{origin}: {mistake}" for mistake in found]
    return rules


def _read_notify(text: str, mistakes: list[str]) -> list[object]:
    """The rules in the variable: a JSON array of tables."""
    import json

    try:
        tables = json.loads(text)
    except ValueError as error:
        mistakes.append(f"{NOTIFY_VARIABLE}: {error}")
        return []
    if not isinstance(tables, list):
        mistakes.append(f'{NOTIFY_VARIABLE} must be a JSON array of rules, such as [{{"name": "x", …}}]')
        return []
    return tables


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
    if not isinstance(table, dict):  # another program's file: it may not describe a table
        return {}
    names = {"tableName": "table_name", "region": "region"}
    return {f"infrastructure.dynamodb.{names[key]}": table[key] for key in names if table.get(key)}


def _flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(_flatten(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _describe_unknown(where: str, key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, [setting.key for setting in SETTINGS], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{where}: unknown setting {key}{hint}"
