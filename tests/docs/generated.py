"""The parts of the reference that are written by the code itself, so that they cannot drift from it.

`python -m tests.docs.generated` brings the pages up to date. A part stands between two comments:
`<!-- generated: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import click
from mcp_types import Tool

from longwatch import errors
from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.main import COMMANDS, PROGRAM, cli
from longwatch.executions.sources.declaration_parser import KEYS
from longwatch.executions.sources.declarations import Declaration
from longwatch.executions.sources.registry import sources as registered_sources
from longwatch.executions.sources.shipped import AWS, CI, HTTP
from longwatch.journal.dynamodb.session_layout import SessionLayout
from longwatch.model.event import CALL_WORDS
from longwatch.model.summary import ENDS, STARTS, STATUS_WORDS
from longwatch.recording.sessions import SessionRecorder, SessionStatus, TaskState, task_status
from longwatch.recording.sessions.recorder import is_failure_status
from longwatch.server.mcp.tools import TOOLS, listed
from longwatch.settings import SETTINGS
from longwatch.storage.dynamodb.values import AttributeValue, from_attribute
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.turns.dialects.messages import Reported
from longwatch.turns.verdict import VERDICTS, ProcessEnd
from tests.docs.pages import ROOT

PLACES: Mapping[str, str] = {  # part -> page under docs/
    "commands": "reference/cli.md",
    "commands of executions": "reference/cli-executions.md",
    "commands of journals": "reference/cli-journals.md",
    "exit codes": "reference/exit-codes.md",
    "settings": "reference/settings.md",
    "errors": "reference/python.md",
    "starts": "reference/events.md",
    "tools": "reference/mcp.md",
    "endings": "reference/events.md",
    "status words": "reference/events.md",
    "call words": "reference/events.md",
    "turn verdicts": "explanation/turn-endings.md",
    "session records": "../LOCAL_DEVELOPMENT.md",
    "sources": "reference/sources.md",
    "source words": "reference/sources.md",
    "declaration keys": "reference/sources.md",
}

LINE_COLUMNS = 120

_COMMA = ",\n"
_EXECUTION = "arn:aws:states:eu-west-1:123456789012:execution:longwatch-sessions-session:7c2d"

_OF_EXECUTIONS = ("executions", "simulate")  # on a page of their own
_OF_JOURNALS = ("verify", "export", "import", "ship", "delete", "prune", "recover")  # and these
_SHARED = ("--journal", "--debug", "--help")  # stated once, at the top of the page


def commands() -> str:
    return _commands(name for name in COMMANDS if name not in _OF_EXECUTIONS + _OF_JOURNALS)


def commands_of_executions() -> str:
    return _commands(_OF_EXECUTIONS)


def commands_of_journals() -> str:
    return _commands(_OF_JOURNALS)


def _commands(names: Iterable[str]) -> str:
    context = click.Context(cli, info_name=PROGRAM, help_option_names=["-h", "--help"])
    return "\n\n".join(part for name in names for part in _command(name, cli, context))


def _command(name: str, group: click.Group, context: click.Context) -> Iterator[str]:
    """A command, and after it those that it is a group of."""
    command = group.get_command(context, name)
    assert command is not None
    here = click.Context(command, info_name=name, parent=context)
    usage = " ".join(command.get_usage(here).removeprefix("Usage: ").split())
    paragraphs = inspect.cleandoc(command.help or "").split("\b")[0].split("\n\n")
    parts = [f"## {here.command_path}", f"```text\n{usage}\n```"]
    parts += [_wrapped(paragraph) for paragraph in paragraphs if paragraph.strip()]
    rows = list(_option_rows(command, here))
    if rows:
        parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    yield "\n\n".join(parts)
    if isinstance(command, click.Group):
        for each in command.list_commands(here):
            yield from _command(each, command, here)


def _wrapped(paragraph: str) -> str:
    plain = _escaped(" ".join(paragraph.split()))
    return textwrap.fill(plain, LINE_COLUMNS, break_long_words=False, break_on_hyphens=False)


def _option_rows(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option) or set(parameter.opts) & set(_SHARED) or parameter.hidden:
            continue
        record = parameter.get_help_record(context)
        assert record is not None
        names, about = record
        yield f"| {_option_names(names)} | {_cell(about)} |"


def _option_names(names: str) -> str:
    return f"`{names.replace('|', ' or ')}`"


def exit_codes() -> str:
    return _table(("code", "meaning"), ((str(code.value), code.meaning) for code in ExitCode))


def settings() -> str:
    rows = ["| key | variable | default | meaning |", "|---|---|---|---|"]
    for each in SETTINGS:
        default = "see below" if each.default is None else f"`{_toml(each.default)}`"
        rows.append(f"| `{each.key}` | `{each.variable}` | {default} | {_cell(each.about)} |")
    return "\n".join(rows)


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case tuple():
            return "[]" if not value else str(list(value))
        case _:
            return str(value)


def error_tree() -> str:
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    return f"```text\n{tree}\n```"


def starts() -> str:
    return _table(("event type", "kind"), ((f"`{name}`", f"`{kind}`") for name, kind in STARTS.items()))


def endings() -> str:
    return _table(("event type", "status"), ((f"`{name}`", f"`{status}`") for name, status in ENDS.items()))


def tools() -> str:
    return "\n\n".join(f"### `{name}`\n\n{_tool(listed(entry))}" for name, entry in TOOLS.items())


def _tool(tool: Tool) -> str:
    properties, required = tool.input_schema.get("properties", {}), tool.input_schema.get("required", ())
    rows = ["| argument | default | meaning |", "|---|---|---|"]
    for name, field in properties.items():
        default = "required" if name in required else f"`{json.dumps(field.get('default'))}`"
        rows.append(f"| `{name}` | {default} | {_cell(field['description'])} |")
    about = _wrapped(tool.description or "")
    return "\n".join([about, "", *rows]) if properties else f"{about} It has no arguments."


def status_words() -> str:
    return _table(("word", "status"), _by_meaning(STATUS_WORDS))


def call_words() -> str:
    return _table(("word", "read as"), _by_meaning(CALL_WORDS))


def turn_verdicts() -> str:
    """A row for each report of an agent, a column for each end of its process."""
    heading = f"| report | {' | '.join(ProcessEnd)} |"
    rows = [
        f"| {reported or 'none'} | {' | '.join(f'`{VERDICTS[reported, end]}`' for end in ProcessEnd)} |"
        for reported in (*Reported, None)
    ]
    return "\n".join([heading, "|---" * (1 + len(ProcessEnd)) + "|", *rows])


def session_records() -> str:
    """One record of every status of a session, as the table holds it."""
    clock, layout = FakeClock(), SessionLayout()
    journal = MemoryJournal()
    recorder = SessionRecorder(journal, "session-1f0c6a52", execution=_EXECUTION, clock=clock)
    parts = []
    for status in (*SessionStatus, task_status("indexing", TaskState.STARTED)):
        clock.advance(1.5)
        error = "RuntimeError: out of luck" if is_failure_status(status) else None
        event = replace(recorder.record(status, error=error), event_id=f"{clock.now_ms():012x}…")
        item = layout.with_key(layout.encode_event(event), event, event.occurred_at)
        if str(status).startswith("SESSION_"):  # written by the state machine, which knows nothing of these
            item = {name: value for name, value in item.items() if name not in ("Longwatch", "EventId")}
            item["Payload"] = {"M": {"execution": {"S": _EXECUTION}}}
        named = {name: item.pop(name) for name in ("PK", "SK")} | item
        lines = (f"  {json.dumps(name)}: {_compact(value)}" for name, value in named.items())
        parts.append(f"```json\n{{\n{_COMMA.join(lines)}\n}}\n```")
    return "\n\n".join(parts)


def sources() -> str:
    """Every shipped source: what to type, and which statuses it maps."""
    rows = ["| what to type | source | what it is | asks |", "|---|---|---|---|"]
    calls = {each.name: _calls(each) for each in AWS.values()} | {"drs": "`drs:DescribeJobs`"}
    calls |= dict.fromkeys([*CI, "http"], "GET")
    for each in registered_sources().entries:
        asks = calls.get(each.name, "the kernel")
        rows.append(f"| `{each.usage}` | `{each.name}` | {_cell(each.about)} | {asks} |")
    return "\n".join(rows)


def _calls(declaration: Declaration) -> str:
    items = declaration.items.call if declaration.items else None
    return ", ".join(f"`{call.name}`" for call in (declaration.call, items) if call is not None)


def source_words() -> str:
    """What each word of each declared source means."""
    parts = []
    for each in (*AWS.values(), *CI.values(), HTTP):
        statuses = {
            word.upper() if each.name in AWS else word: meaning.value
            for word, meaning in each.statuses.items()
        }
        parts.append(f"### {each.name}\n\n{_table(('word', 'means'), _by_meaning(statuses))}")
    return "\n\n".join(parts)


def declaration_keys() -> str:
    return _table(("key", "meaning"), ((f"`{key}`", _cell(about)) for key, about in KEYS.items()))


def _compact(value: AttributeValue) -> str:
    return json.dumps(from_attribute(value), ensure_ascii=False)


def _by_meaning(statuses: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for meaning in dict.fromkeys(statuses.values()):
        same = ", ".join(f"`{word}`" for word, other in statuses.items() if other == meaning)
        yield same, f"`{meaning}`"


def _table(heading: tuple[str, str], rows: Iterator[tuple[str, str]]) -> str:
    lines = [
        f"| {heading[0]} | {heading[1]} |",
        "|---|---|",
        *(f"| {one} | {other} |" for one, other in rows),
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "&lt;").replace("[", "\\[")


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "commands of executions": commands_of_executions,
    "commands of journals": commands_of_journals,
    "exit codes": exit_codes,
    "settings": settings,
    "errors": error_tree,
    "starts": starts,
    "endings": endings,
    "tools": tools,
    "status words": status_words,
    "call words": call_words,
    "turn verdicts": turn_verdicts,
    "session records": session_records,
    "sources": sources,
    "source words": source_words,
    "declaration keys": declaration_keys,
}


def updated(text: str, part: str) -> str:
    """The page with this part as the code has it now."""
    begin, end = f"<!-- generated: {part} -->", f"<!-- end: {part} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    assert len(pattern.findall(text)) == 1, f"the page has no place for the part {part!r}"
    return pattern.sub(lambda _: f"{begin}\n{PARTS[part]()}\n{end}", text)


def main() -> None:
    for part, name in PLACES.items():
        path = ROOT / "docs" / name
        path.write_text(updated(path.read_text(encoding="utf-8"), part), encoding="utf-8")


if __name__ == "__main__":
    main()
