"""Options that the commands of executions share, and their parsers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.cli.options import Invocation
from longwatch.errors import InvalidInput
from longwatch.executions.model import Job, Stage
from longwatch.executions.stores.factory import open_executions

if TYPE_CHECKING:
    from longwatch.executions.stores.base import ExecutionStore

F = TypeVar("F", bound=Callable[..., Any])


def store_option(command: F) -> F:
    """`--executions`: the URL of the store."""
    return click.option(
        "--executions",
        "url",
        metavar="URL",
        help="Execution store URL: sqlite:///file.db or dynamodb://TABLE. [default: beside the journal]",
    )(command)


@contextmanager
def open_store(invocation: Invocation, url: str | None) -> Iterator[ExecutionStore]:
    """The store of executions, closed afterwards."""
    store = open_executions(url, settings=invocation.settings(), clock=invocation.clock)
    try:
        yield store
    finally:
        store.close()


def parse_wave(text: str, *, region: str | None, account: str | None) -> Stage:
    """Parse `NAME=JOB,JOB` as a stage; one without jobs has not begun."""
    name, equals, jobs = text.partition("=")
    if not name.strip() or not equals:
        raise InvalidInput(f"Invalid wave {text!r}. Write NAME=JOB, or NAME=JOB,JOB for several jobs.")
    return Stage(name.strip(), tuple(Job(each, region=region, account=account) for each in parse_ids(jobs)))


def parse_ids(text: str) -> tuple[str, ...]:
    """Parse `ID,ID`."""
    return tuple(each.strip() for each in text.split(",") if each.strip())


def add_servers(waves: Sequence[Stage], servers: Sequence[str]) -> tuple[Stage, ...]:
    """Add the servers that `NAME=ID,ID` names to each stage."""
    named: dict[str, tuple[str, ...]] = {}
    for text in servers:
        name, _, ids = text.partition("=")
        if not parse_ids(ids):
            raise InvalidInput(f"Invalid servers {text!r}. Write WAVE=ID, or WAVE=ID,ID for several servers.")
        named[name.strip()] = (*named.get(name.strip(), ()), *parse_ids(ids))
    unknown = sorted(named.keys() - {wave.name for wave in waves})
    if unknown:
        raise InvalidInput(f"No wave {unknown[0]!r} for --servers. Add it with --wave {unknown[0]}=JOB.")
    return tuple(replace(wave, expected_items=named.get(wave.name, ())) for wave in waves)
