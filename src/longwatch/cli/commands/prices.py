"""`longwatch prices`: the prices of tokens, by which usage is turned into cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.styles import Segment
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import Terminal, remark, write_json, write_json_lines
from longwatch.cli.render.text import clean, count_text
from longwatch.model.price_tables import price_fields
from longwatch.model.prices import Price
from longwatch.storage.price_file import PriceList, import_prices, price_file, read_imported

COLUMNS = (
    Column("MODEL", 9, 12, elastic=True),
    Column("PROVIDER", 2, 8),
    Column("INPUT", 8, 6, right=True),
    Column("OUTPUT", 7, 6, right=True),
    Column("CACHE READ", 4, 6, right=True),
    Column("CACHE WRITE", 3, 6, right=True),
    Column("FROM", 1, 8),
)


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the prices of tokens, or import them.

    Prices are in US dollars for a million tokens. Those in [prices] of longwatch.toml come before imported
    ones. longwatch ships none. Without a command, this lists them.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@command.command("list")
@click.option("-q", "--text", default="", help="Only models whose name contains this text.")
@output_option()
@common_options
@pass_invocation
def list_command(invocation: Invocation, text: str, output: str) -> None:
    """List the prices, and where each is from."""
    settings = invocation.settings()
    own, every = settings.prices, PriceList(settings).current().models
    shown = {name: every[name] for name in sorted(every) if text.lower() in name.lower()}
    if output == "json":
        write_json({name: _view(name, price, own) for name, price in shown.items()})
    elif output == "jsonl":
        write_json_lines({"model": name, **_view(name, price, own)} for name, price in shown.items())
    elif shown:
        terminal = Terminal.of_stdout()
        rows = [_row(name, price, own) for name, price in shown.items()]
        terminal.show(table(COLUMNS, rows, width=terminal.columns))
    if not every:
        remark("No prices. Add them to [prices] in longwatch.toml, or use `longwatch prices import FILE`.")
    elif not shown:
        remark("No matching prices.")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Drop the prices of earlier imports.")
@common_options
@pass_invocation
def import_command(invocation: Invocation, file: Path, replace: bool) -> None:
    """Import prices from FILE, in litellm's JSON format.

    The format is that of litellm's model_prices_and_context_window.json. Prices of models that are not in
    FILE stay as they are. A file with a mistake changes nothing.
    """
    target = price_file()
    found = import_prices(file, file=target, replace=replace)
    total = len(read_imported(target))
    remark(f"Imported the prices of {count_text(len(found), 'model')} into {target}, which has {total:,}.")


def _view(name: str, price: Price, own: Mapping[str, Price]) -> dict[str, object]:
    return {**price_fields(price), "origin": _origin(name, own)}


def _row(name: str, price: Price, own: Mapping[str, Price]) -> list[Segment]:
    rates = (price.input, price.output, price.cache_read, price.cache_write)
    return [
        Segment(clean(name), "strong"),
        Segment(clean(price.provider)),
        *(Segment(_rate_text(rate)) for rate in rates),
        Segment(_origin(name, own), "dim"),
    ]


def _origin(name: str, own: Mapping[str, Price]) -> str:
    return "settings" if name in own else "imported"


def _rate_text(rate: Decimal | None) -> str:
    return "–" if rate is None else f"{rate.normalize():f}"
