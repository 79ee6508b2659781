"""Everything that a user or another program can see, as text: what the snapshots beside this file hold.

`make snapshots` updates them. A snapshot is the same on every machine: it has no versions of dependencies, no
times and no absolute paths. Apart from the files of the wheel it names only modules that users import from.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, NewType

import click
from hatchling.builders.wheel import WheelBuilder

from longwatch.cli.main import PROGRAM, cli
from longwatch.clock import SYSTEM_CLOCK
from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.errors import InvalidInput
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.sqlite.heartbeats import SUFFIX as HEARTBEATS_SUFFIX
from longwatch.journal.sqlite.journal import SqliteJournal
from longwatch.model.event import CALL_WORDS
from longwatch.model.summary import ENDS, STARTS, STATUS_WORDS
from longwatch.recording.outbox import Outbox
from longwatch.server.access.scopes import REQUIRED
from longwatch.server.app import create_api
from longwatch.server.context import open_context
from longwatch.server.graphql.schema import load_schema
from longwatch.server.live.schemas import EVENT_NAMES
from longwatch.server.live.topics import Topic, TopicKind
from longwatch.settings import SETTINGS, Settings
from tests.docs import source
from tests.docs.pages import ROOT, all_pages, page
from tests.snapshots.records import records
from tests.stack.templates import load_template

SNAPSHOTS = Path(__file__).parent
UPDATE = "make snapshots"

HELP_COLUMNS = 100
JSON_COLUMNS = 120
PUBLIC_MODULES = (  # those that docs/reference/python.md describes
    "longwatch",
    "longwatch.remote",
    "longwatch.errors",
    "longwatch.following",
    "longwatch.polling",
    "longwatch.testing",
    "longwatch.testing.drs",
)
VIEWER = ROOT / "src" / "longwatch" / "server" / "page" / "viewer"
BROWSER_FILES = (ROOT / "web" / "react" / "index.js", ROOT / "web" / "react" / "index.d.ts")

_EXPORT = re.compile(
    r"^export (?:default |declare )*(?:async )?(?:abstract )?"
    r"(?:function\*?|class|const|let|interface|type|enum)\s+(\w+)",
    re.MULTILINE,
)
_EXPORT_LIST = re.compile(r"^export (?:type )?\{([^}]*)\}", re.MULTILINE)
_IMPORT = re.compile(r"^\s*from (longwatch[\w.]*) import (\([^)]*|[\w, ]+)", re.MULTILINE)
_IDENTIFIER = re.compile(r"[a-z][a-z_]*")
_WRITTEN = re.compile(r"(?<=\")\w+(?=\")|\b\w+(?==)")


# HTTP


def openapi() -> str:
    """The schema that /openapi.json returns, without the version of longwatch.

    Of the headers that are defined once for all responses, each response has only the names.
    """
    schema = asyncio.run(_schema())
    del schema["info"]["version"]
    for path in schema["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                headers = response.pop("headers", {})
                shared = [name for name, header in headers.items() if "$ref" in header]
                response["shared headers"] = " ".join(sorted(shared))
                response["headers"] = {name: header for name, header in headers.items() if name not in shared}
    return _json(schema)


def _json(value: Any, indent: int = 0) -> str:
    """Sorted JSON in which everything that fits on a line has one line."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if indent + len(line) <= JSON_COLUMNS or not isinstance(value, dict | list):
        return line
    inner, outer = "\n" + " " * (indent + 1), "\n" + " " * indent
    if isinstance(value, list):
        return f"[{inner}{f',{inner}'.join(_json(each, indent + 1) for each in value)}{outer}]"
    entries = (f"{json.dumps(name)}: {_json(each, indent + 1)}" for name, each in sorted(value.items()))
    return f"{{{inner}{f',{inner}'.join(entries)}{outer}}}"


async def _schema() -> dict[str, Any]:
    with MemoryJournal() as journal, MemoryDocumentStore() as documents:
        async with open_context(journal, documents) as context:
            return create_api(context).openapi()


def graphql() -> str:
    """The schema that /graphql/schema.graphql returns."""
    return str(load_schema())


def routes() -> str:
    """Every route with its method and the scope that it requires."""
    ordered = sorted(REQUIRED.items(), key=lambda entry: (entry[0][1], entry[0][0]))
    return "\n".join(f"{path} {method} {scope or 'public'}" for (method, path), scope in ordered)


def feed() -> str:
    """The topics of the feed and the names of its messages."""
    names = (f"{kind}{parts}" for kind in sorted(TopicKind) for parts in ("", ":a", ":a/b", ":a/b/c"))
    topics = [f"topic {name}" for name in names if _is_topic(name)]
    return "\n".join([*topics, *(f"message {name}" for name in sorted(EVENT_NAMES))])


def _is_topic(name: str) -> bool:
    try:
        Topic.of(name)
    except InvalidInput:
        return False
    return True


# The command line and its settings


def help_texts() -> str:
    """What --help prints, for every command and every command of a group."""
    context = click.Context(cli, info_name=PROGRAM, terminal_width=HELP_COLUMNS, **cli.context_settings)
    return "\n\n".join(_help(cli, context))


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"$ {context.command_path} --help\n{command.get_help(context)}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            inner = click.Context(
                each,
                info_name=name,
                parent=context,
                terminal_width=HELP_COLUMNS,
                **each.context_settings,
            )
            yield from _help(each, inner)


def settings() -> str:
    """Every setting: its key, its variable, its type and its default."""
    types = {field.name: field.type for field in fields(Settings)}
    return "\n".join(
        f"{each.key} {each.variable}: {types[each.attribute]} = {each.default!r}"
        for each in sorted(SETTINGS, key=lambda each: each.key)
    )


# Events and stores


def events() -> str:
    """The event types that the code defines, with the payload fields that the reference gives each of them.

    A field that occurs nowhere in the code is marked.
    """
    documented = dict(_documented_payloads())
    names = _names_in_the_code()
    lines = []
    for name in sorted(source.event_types() | set(documented)):
        lines.append(name)
        for field in sorted(documented.get(name, ())):
            lines.append(f"  {field}" if field in names else f"  {field} (not in the code)")
    for title, words in (
        ("starts", STARTS),
        ("ends", ENDS),
        ("status words", STATUS_WORDS),
        ("call words", CALL_WORDS),
    ):
        lines += ["", f"[{title}]", *(f"{word} = {meaning}" for word, meaning in sorted(words.items()))]
    return "\n".join(lines)


def _documented_payloads() -> Iterator[tuple[str, set[str]]]:
    text = page("reference/events.md").text
    table = text.partition("## Types that longwatch writes")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| `.*$", table, re.MULTILINE):
        types, _, payload = (cell.strip() for cell in row.strip("| ").split(" | ", 2))
        named = {name for name in re.findall(r"`([^`]+)`", payload) if _IDENTIFIER.fullmatch(name)}
        for name in re.findall(r"`(\w+)`", types):
            yield name, named


def _names_in_the_code() -> set[str]:
    """Words in quotes, and names of arguments: `record("note", text=…)` writes a field as one."""
    found: set[str] = set()
    for path in source.SOURCE.rglob("*.py"):
        found |= set(_WRITTEN.findall(path.read_text(encoding="utf-8")))
    return found


def sql() -> str:
    """The tables, indexes and triggers of a new file of each kind, and the numbers that identify it."""
    with tempfile.TemporaryDirectory() as folder:
        journal, outbox, documents, executions = (
            Path(folder) / name for name in ("journal.db", "outbox.db", "documents.db", "executions.db")
        )
        with SqliteJournal(journal) as opened:
            opened.find_runs()
            opened.beat("0123456789abcdef", SYSTEM_CLOCK.now_ms())
        with closing(Outbox(outbox)) as waiting:
            waiting.put("memory://", [])
        with SqliteDocumentStore(documents) as store:
            store.project("none")
        with closing(SqliteExecutionStore(executions)) as executions_store:
            list(executions_store.open_executions())
        shared = _definitions(journal).keys()
        return "\n\n".join(
            [
                _described("journal", journal),
                _described("heartbeats", Path(f"{journal}{HEARTBEATS_SUFFIX}")),
                _described("outbox", outbox),
                _described("documents", documents, leave_out=shared),
                _described("executions", executions, leave_out=shared),
            ]
        )


def _described(name: str, path: Path, *, leave_out: Collection[str] = ()) -> str:
    """One file. Documents and executions live in the file of a journal, whose own tables are left out."""
    found = {title: text for title, text in _definitions(path).items() if title not in leave_out}
    with closing(sqlite3.connect(path)) as connection:
        [application_id] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
    heading = f"-- {name}: application_id {application_id:#x}, user_version {version}"
    return "\n".join([heading, *(f"{text};" for _, text in sorted(found.items()))])


def _definitions(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {f"{kind} {name}": text for kind, name, text in rows if not name.startswith("sqlite_")}


def templates() -> str:
    """Parameters, resources and outputs of every template, and a digest of each file.

    Comments and descriptions are not part of the digest.
    """
    folder = ROOT / "infrastructure"
    parts = [_template(path) for path in sorted(folder.glob("*.yaml"))]
    for path in sorted(folder.glob("*.asl.json")):
        parts.append(f"{path.name} {_digest(json.loads(path.read_text(encoding='utf-8')))}")
    return "\n\n".join(parts)


def _template(path: Path) -> str:
    template = load_template(path)
    lines = [f"{path.name} {_digest(template)}"]
    for name, parameter in sorted(template.get("Parameters", {}).items()):
        lines.append(f"parameter {name} {parameter['Type']} = {parameter.get('Default')!r}")
    for name, resource in sorted(template["Resources"].items()):
        lines.append(f"resource {name} {resource['Type']}")
    lines += [f"output {name}" for name in sorted(template.get("Outputs", {}))]
    return "\n".join(lines)


def _digest(value: Any) -> str:
    text = json.dumps(_without_prose(value), sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _without_prose(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: _without_prose(each)
                for name, each in value.items()
                if not (name in ("Description", "ConstraintDescription", "Comment") and isinstance(each, str))
            }
        case list():
            return [_without_prose(each) for each in value]
        case _:
            return value


# Names that other code imports


def python_names() -> str:
    """The public names of the documented modules, with the parameters and members of each.

    After these, what the documentation and the examples import from any other module.
    """
    lines = []
    for module in PUBLIC_MODULES:
        lines.append(f"[{module}]")
        loaded = import_module(module)
        for name in sorted(_public(loaded)):
            lines += _name(name, getattr(loaded, name))
        lines.append("")
    lines.append("[imported in the documentation]")
    lines += sorted(f"{module}.{name}" for module, name in _documented_imports())
    return "\n".join(lines)


def _public(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name for name, value in vars(module).items() if _is_ours(value, module.__name__) and name[0] != "_"
    ]


def _is_ours(value: object, module: str) -> bool:
    return getattr(value, "__module__", None) == module


def _name(name: str, value: object) -> Iterator[str]:
    if isinstance(value, type):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})" if bases else f"class {name}"
        yield from (f"  {member}" for member in _members(value))
    elif callable(value) and not isinstance(value, NewType):
        yield f"{name}{_parameters(value)}"
    else:
        yield name


def _members(cls: type) -> list[str]:
    """The public attributes and methods that a class and its bases in longwatch define."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "longwatch":
            found |= {name: value for name, value in vars(base).items() if name[0] != "_"}
            annotated = {name for name in inspect.get_annotations(base) if name[0] != "_"}
            found |= dict.fromkeys(annotated - found.keys())
    methods = {name: getattr(value, "__func__", value) for name, value in found.items()}
    lines = [f"{name}{_parameters(value)}" if callable(value) else name for name, value in methods.items()]
    init = None if getattr(cls, "_is_protocol", False) else vars(cls).get("__init__")
    return [f"__init__{_parameters(init)}", *sorted(lines)] if callable(init) else sorted(lines)


def _parameters(function: Callable[..., Any]) -> str:
    """The parameters by name alone: types and defaults are written differently by different Pythons."""
    shown, is_keyword = [], False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            shown.append("*")
        is_keyword = is_keyword or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        optional = "" if each.default is each.empty else "="
        shown.append(f"{star}{each.name}{optional}")
    return f"({', '.join(shown)})"


def _documented_imports() -> set[tuple[str, str]]:
    blocks = (block.text for each in all_pages() for block in each.blocks() if block.language == "python")
    examples = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.py")))
    found = set()
    for text in (*blocks, *examples):
        for module, names in _IMPORT.findall(text):
            found |= {(module, name.split(" as ")[0].strip(" (\n")) for name in names.split(",")}
    return {(module, name) for module, name in found if name and module not in PUBLIC_MODULES}


def browser_names() -> str:
    """What the React package and the browser modules that it is built from export, by file."""
    parts = []
    for path in (*BROWSER_FILES, *sorted((VIEWER / "core").glob("*.js"))):
        text = path.read_text(encoding="utf-8")
        names = {*_EXPORT.findall(text), *_listed(_EXPORT_LIST.findall(text))}
        shown = path.name if path.parent == VIEWER / "core" else path.relative_to(ROOT).as_posix()
        parts.append("\n".join([f"[{shown}]", *sorted(names)]))
    return "\n\n".join(parts)


def _listed(lists: Iterable[str]) -> Iterator[str]:
    for each in ",".join(lists).split(","):
        if each.strip():
            yield each.split(" as ")[-1].strip()


def wheel() -> str:
    """The files of the wheel, without its metadata."""
    builder = WheelBuilder(str(ROOT))
    return "\n".join(sorted(str(each.distribution_path) for each in builder.recurse_included_files()))


PARTS: Mapping[str, Callable[[], str]] = {  # file -> what it holds
    "browser-names.txt": browser_names,
    "events.txt": events,
    "feed.txt": feed,
    "graphql.txt": graphql,
    "help.txt": help_texts,
    "openapi.json": openapi,
    "python-names.txt": python_names,
    "records.txt": records,
    "routes.txt": routes,
    "settings.txt": settings,
    "sql.txt": sql,
    "templates.txt": templates,
    "wheel.txt": wheel,
}


def current(name: str) -> str:
    """What this snapshot would hold now."""
    return f"{PARTS[name]().rstrip()}\n"


def main() -> None:
    for name in PARTS:
        path = SNAPSHOTS / name
        before, now = path.read_text(encoding="utf-8") if path.exists() else "", current(name)
        if before != now:
            path.write_text(now, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} updated")


if __name__ == "__main__":
    main()
