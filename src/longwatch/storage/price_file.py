"""The prices of tokens that this user has imported, in `prices.json` in the data directory."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from longwatch.errors import InvalidInput
from longwatch.model.price_tables import parse_litellm, parse_prices, price_fields
from longwatch.model.prices import Price, Prices
from longwatch.settings import Settings, data_directory, make_private_directory

FILE_NAME = "prices.json"
SHOWN_MISTAKES = 3

log = logging.getLogger("longwatch")


def price_file() -> Path:
    """The file of imported prices."""
    return data_directory() / FILE_NAME


class PriceList:
    """The prices of the settings and of the imported file, which is read again when it changes."""

    def __init__(self, settings: Settings | None = None, file: Path | None = None) -> None:
        self._own = {} if settings is None else settings.prices
        self._file = price_file() if file is None else file
        self._seen: tuple[int, int] | None = None
        self._prices = Prices(self._own)
        self._tag: str | None = None

    def current(self) -> Prices:
        """The prices at this moment; those of the settings come before imported ones of the same name."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen, self._tag = stamp, None
            self._prices = Prices(self._imported()).updated(self._own)
        return self._prices

    @property
    def tag(self) -> str:
        """Equal for equal prices: for the ETag of what has costs."""
        models = self.current().models
        if self._tag is None:
            self._tag = sha256(repr(sorted(models.items())).encode()).hexdigest()[:16]
        return self._tag

    def _imported(self) -> Mapping[str, Price]:
        try:
            return read_imported(self._file)
        except InvalidInput as error:
            log.warning("longwatch: imported prices cannot be used: %s", error)
            return {}

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


def read_imported(file: Path) -> dict[str, Price]:
    """The imported prices; none if nothing was imported."""
    if not file.exists():
        return {}
    prices, mistakes = parse_prices(_read_object(file))
    if mistakes:
        raise InvalidInput(_message(file, mistakes, "Import the prices again."))
    return prices


def import_prices(source: Path, *, file: Path, replace: bool = False) -> dict[str, Price]:
    """Add the prices in a file of litellm's format to the imported ones; returns those of the file.

    A file with a mistake changes nothing. With `replace`, earlier imports are dropped.
    """
    found, mistakes = parse_litellm(_read_object(source))
    if mistakes:
        raise InvalidInput(_message(source, mistakes, "Nothing was imported."))
    if not found:
        raise InvalidInput(
            f"{source} has no prices. Nothing was imported. Use litellm's format: an object of models, each "
            "with input_cost_per_token and output_cost_per_token."
        )
    kept = {} if replace else read_imported(file)
    _write(file, {**kept, **found})
    return found


def _read_object(path: Path) -> Mapping[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON: {error}. Nothing was imported.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} must be a JSON object of models, not {type(value).__name__}.")
    return value


def _write(file: Path, prices: Mapping[str, Price]) -> None:
    """Replace the file at once, so that a reader never sees half of it."""
    make_private_directory(file.parent)
    text = json.dumps({name: price_fields(price) for name, price in sorted(prices.items())}, indent=1)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as draft:
            draft.write(text)
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)


def _message(path: Path, mistakes: list[str], next_step: str) -> str:
    more = f" (and {len(mistakes) - SHOWN_MISTAKES:,} more)" if len(mistakes) > SHOWN_MISTAKES else ""
    return f"{path}: {'; '.join(mistakes[:SHOWN_MISTAKES])}{more}. {next_step}"
