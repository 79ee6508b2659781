"""Facts about the source code, read from its syntax: event types, log messages, variables, texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from longwatch.model.summary import ENDS, STARTS
from longwatch.telemetry.span_events import EVENT_TYPES
from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "longwatch"

_RECORDERS = frozenset({"record", "note", "_note", "_record", "say", "_say", "tell", "_tell", "_told"})
_LOG_LEVELS = frozenset({"warning", "error", "exception"})
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]+")


@cache
def modules() -> tuple[tuple[Path, ast.Module], ...]:
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(SOURCE.rglob("*.py")))


def nodes(*, leave_out: Collection[str] = ()) -> Iterator[ast.AST]:
    for path, tree in modules():
        if not set(leave_out) & set(path.parts):
            yield from ast.walk(tree)


@cache
def texts() -> frozenset[str]:
    """Every string in the code; of an f-string, its fixed parts."""
    return frozenset(
        node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def event_types() -> frozenset[str]:
    """The event types that the code writes or compares with; the demo and an SDK have words of their own."""
    found = {*STARTS, *ENDS, *(name for names in EVENT_TYPES.values() for name in names)}
    for node in nodes(leave_out=("demo", "openai_agents.py")):
        match node:
            case ast.Call(func=ast.Name(id="Note"), args=[_, kind, *_]):
                found |= _constants(kind)
            case ast.Call(func=ast.Name(id="Event"), keywords=keywords):
                for keyword in keywords:
                    if keyword.arg == "type":
                        found |= _constants(keyword.value)
            case ast.Call(func=ast.Attribute(attr=name), args=[kind, *rest]) if name in _RECORDERS:
                found |= _constants(kind)
                if rest:
                    found |= _constants(rest[0])
            case ast.Compare(left=ast.Attribute(attr="type"), comparators=[other]):
                found |= _constants(other)
            case ast.Match(subject=ast.Attribute(attr="type"), cases=cases):
                for case in cases:
                    found |= _constants(case.pattern)
            case ast.Return(value=ast.Tuple(elts=[kind, ast.Dict()])):
                found |= _constants(kind)
    return frozenset(name for name in found if _TYPE.fullmatch(name))


def _constants(node: ast.AST) -> set[str]:
    """The texts that this expression or pattern can be, as far as its form shows."""
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.Name(id=name):
            return _named_texts().get(name, set())
        case ast.IfExp(body=one, orelse=other):
            return _constants(one) | _constants(other)
        case ast.MatchValue(value=value):
            return _constants(value)
        case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.MatchOr(patterns=parts):
            return {text for part in parts for text in _constants(part)}
        case _:
            return set()


@cache
def _named_texts() -> dict[str, set[str]]:
    """Texts that a module gives a name in capitals: `CLOSED = "producer_closed"`."""
    found: dict[str, set[str]] = {}
    for node in (node for _, tree in modules() for node in tree.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))) if (
                name.isupper()
            ):
                found.setdefault(name, set()).add(text)
    return found


def log_messages() -> list[str]:
    """What the code logs for people to read: the format of every warning and error."""
    found = []
    for node in nodes():
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log"), attr=level),
                args=[ast.Constant(value=str(message)), *_],
            ) if level in _LOG_LEVELS:
                found.append(message)
    return found


def variables() -> frozenset[str]:
    """The environment variables of our own that the code reads."""
    return frozenset(text for text in texts() if re.fullmatch(r"LONGWATCH_[A-Z_]+", text))


def table_problem_kinds() -> frozenset[str]:
    """The words in `TableProblem.kind`."""
    found: set[str] = set()
    for node in nodes():
        match node:
            case ast.Call(func=ast.Name(id="TableProblem"), args=[ast.Constant(value=str(kind)), *_]):
                found.add(kind)
    from longwatch.storage.dynamodb.errors import _KINDS

    return frozenset(found | set(_KINDS.values()) - {"throttled"})


def longest_fixed_part(message: str) -> str:
    """The longest piece of a log format that is the same every time."""
    return max(re.split(r"%[\d.]*[a-z]", message), key=len).strip(" :,.;")
