"""What `longwatch doctor` looks at, one function for each part. None of them raises, whatever they find."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import InvalidSettings, LongwatchError
from longwatch.settings import SETTINGS, Settings

COUNTED_RUNS = 1000
LARGEST_SKEW_SECONDS = 2.0  # followers look back this far on every tick
PACKAGES = ("longwatch", "click", "rich", "boto3", "opentelemetry-sdk", "fastapi")
OTHER_VARIABLES = (
    "LONGWATCH_CONFIG",
    "LONGWATCH_DATA",
    "LONGWATCH_PROJECT",
    "LONGWATCH_PROMPT",
    "LONGWATCH_READ_TOKEN",
    "LONGWATCH_RUN_ID",
    "LONGWATCH_SESSION",
    "LONGWATCH_STRICT",
    "LONGWATCH_TOKEN",
    "LONGWATCH_TURN_ID",
)


@dataclass(slots=True)
class Finding:
    """One part of the examination: facts, what is worth a look, and what is wrong."""

    title: str
    facts: list[tuple[str, str, str]] = field(default_factory=list)  # name, value, remark
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # each says what to do next

    def add(self, name: str, value: object, about: str = "") -> None:
        self.facts.append((name, str(value), about))


def guarded(title: str, look: Callable[[Finding], None]) -> Finding:
    """Look, and turn whatever goes wrong into a problem of this part."""
    finding = Finding(title)
    try:
        look(finding)
    except LongwatchError as error:
        finding.problems.append(str(error))
    except Exception as error:  # noqa: BLE001  the doctor itself must not fall ill
        finding.problems.append(f"{type(error).__name__}: {error}")
    return finding


def check_settings(
    load: Callable[[], Settings], environment: Mapping[str, str]
) -> tuple[Finding, Settings | None]:
    """Every setting with its value and where it came from, or every mistake in them."""
    finding = Finding("Settings")
    finding.warnings += misspelt_variables(environment)
    try:
        settings = load()
    except InvalidSettings as error:
        finding.problems += [f"{mistake} – fix or remove it." for mistake in error.mistakes]
        return finding, None
    except Exception as error:  # noqa: BLE001  the doctor itself must not fall ill
        finding.problems.append(f"{type(error).__name__}: {error}")
        return finding, None
    finding.add("file", settings.file or "none", "" if settings.file else "`longwatch init` writes one")
    for setting in SETTINGS:
        value = getattr(settings, setting.attribute)
        finding.add(setting.key, _shown(value), settings.origins[setting.key])
    return finding, settings


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = ", ".join(value) if isinstance(value, tuple) else value
    return "–" if text in (None, "") else str(text)


def misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none: a setting that silently does nothing."""
    import difflib

    known = [*(setting.variable for setting in SETTINGS), *OTHER_VARIABLES]
    found = []
    for name in sorted(environment):
        if name.startswith("LONGWATCH_") and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            if close:
                found.append(f"{name} is set, but longwatch does not know it. Did you mean {close[0]}?")
    return found


def look_at_journal(settings: Settings, clock: Clock, finding: Finding) -> None:
    """Open the journal and tell what it is."""
    from longwatch.cli.resolve import sqlite_path
    from longwatch.journal.factory import open_journal
    from longwatch.model.run_query import WORK

    finding.add("address", settings.journal)
    path = sqlite_path(settings.journal)
    if path is not None:
        path = path.absolute()
        finding.add("kind", "SQLite")
        if not path.exists():
            finding.add("file", path, "not there yet; the first event creates it")
            check_parent(path, finding)
            return
        look_at_file(path, finding)
    elif settings.journal.startswith("dynamodb:"):
        finding.add("kind", "DynamoDB")
        _look_at_table(settings, finding, clock)
    with open_journal(settings=settings, clock=clock) as journal:
        version = getattr(journal, "schema_version", None)
        if version is not None:
            finding.add("file version", version)
        page = journal.find_runs(WORK, limit=COUNTED_RUNS)
        count = f"{len(page.runs):,}" + ("" if page.cursor is None else " or more")
        finding.add("runs", count)
        if page.runs:
            newest = page.runs[0]
            finding.add("newest run", newest.run_id, f"{newest.status}, {iso_from_ms(newest.started_at)}")


def _look_at_table(settings: Settings, finding: Finding, clock: Clock) -> None:
    from longwatch.cli.resolve import table_address
    from longwatch.storage.dynamodb.table_check import check_table

    address = table_address(settings)
    report = check_table(address, clock=clock)
    finding.add("table", address.table, f"layout {address.layout}")
    finding.add("region", report.address.region or "–", address.endpoint or "")
    finding.add("status", report.status, report.billing)
    finding.add("items", f"{report.item_count:,}", "DynamoDB counts about every six hours")
    finding.add("time to live", report.ttl or "no right to ask")
    finding.warnings += report.warnings
    skew = report.clock_skew_seconds
    if skew is not None:
        finding.add("clock skew", f"{skew:+.1f} s", "this machine against the service")
        if abs(skew) > LARGEST_SKEW_SECONDS:
            side = "ahead of" if skew > 0 else "behind"
            finding.problems.append(
                f"This machine's clock is {abs(skew):.1f} s {side} DynamoDB's. "
                "Synchronise it (NTP): events would be stamped at the wrong time."
            )


def look_at_outbox(settings: Settings, clock: Clock, finding: Finding) -> None:
    """What waits to be shipped, by journal."""
    from longwatch.recording.outbox import Outbox

    path = settings.outbox_path
    if not path.exists():
        finding.add("file", path, "not there: nothing ever had to wait")
        check_parent(path, finding)
        return
    look_at_file(path, finding)
    outbox = Outbox(path, clock=clock)
    try:
        pending, refused = outbox.pending(), outbox.refused()
    finally:
        outbox.close()
    finding.add("waiting", f"{sum(batch.events for batch in pending):,} events")
    for batch in pending:
        finding.add(f"for {batch.url}", f"{batch.events:,} events", f"oldest {iso_from_ms(batch.oldest_ms)}")
    if pending:
        finding.warnings.append("Events wait in the outbox. Deliver them with `longwatch ship`.")
    for event_id, reason in refused:
        finding.problems.append(
            f"Event {event_id} was refused by its journal and stays in the outbox: {reason}"
        )


def look_at_versions(finding: Finding) -> None:
    """What is installed."""
    import sqlite3
    from importlib.metadata import PackageNotFoundError, version

    finding.add("python", platform.python_version(), sys.executable)
    finding.add("sqlite", sqlite3.sqlite_version)
    for package in PACKAGES:
        try:
            finding.add(package, version(package))
        except PackageNotFoundError:
            finding.add(package, "not installed")


def look_at_file(path: Path, finding: Finding) -> None:
    about = path.stat()
    log = path.with_name(f"{path.name}-wal")
    size = about.st_size + (log.stat().st_size if log.exists() else 0)
    finding.add("file", path, size_text(size))
    finding.add("permissions", stat.filemode(about.st_mode))
    if about.st_mode & (stat.S_IRGRP | stat.S_IROTH) and os.name == "posix":
        finding.warnings.append(
            f"Others on this machine may read {path}. Keep it to yourself: chmod 600 {path}"
        )
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        finding.problems.append(
            f"{path} or its folder may not be written by this user; events cannot be stored."
        )


def check_parent(path: Path, finding: Finding) -> None:
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        finding.problems.append(
            f"{path} cannot be created: no right to write in {folder}. Choose another place."
        )


def size_text(size: int) -> str:
    """`4.0 KB`, `1.2 MB`."""
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
