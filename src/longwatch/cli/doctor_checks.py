"""The checks of `longwatch doctor`, one function for each part of the installation."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from longwatch.cli.render.text import count_text
from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import InvalidSettings, JournalUnusable, LongwatchError, MissingExtra, TableProblem
from longwatch.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from longwatch.storage.dynamodb.errors import TableShape
    from longwatch.storage.dynamodb.table_check import TableReport
    from longwatch.storage.urls import TableAddress

COUNTED_RUNS = 1000
COUNTED_MESSAGES = 1000
SAMPLE_EVENTS = 2_000  # decoded from the whole file without --full
MAX_FAULTS = 10  # of the file's structure that are listed
NEEDED_BYTES, AMPLE_BYTES = 1 << 20, 100 << 20  # of free disk space
MAX_SKEW_SECONDS = 2.0  # the overlap that followers of a table read again
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
    """The result of one check."""

    title: str
    facts: list[tuple[str, str, str]] = field(default_factory=list)  # name, value, remark
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # each ends with the next step

    def add(self, name: str, value: object, about: str = "") -> None:
        self.facts.append((name, str(value), about))


def run_check(title: str, check: Callable[[Finding], None]) -> Finding:
    """Run one check. Any exception becomes a problem of its part, so that the other checks still run."""
    finding = Finding(title)
    try:
        check(finding)
    except LongwatchError as error:
        finding.problems.append(str(error))
    except Exception as error:  # noqa: BLE001
        finding.problems.append(f"{type(error).__name__}: {error}")
    return finding


def check_settings(
    load: Callable[[], Settings], environment: Mapping[str, str]
) -> tuple[Finding, Settings | None]:
    """List every setting with its value and origin, or every mistake in them."""
    finding = Finding("Settings")
    finding.warnings += misspelt_variables(environment)
    try:
        settings = load()
    except InvalidSettings as error:
        finding.problems += [f"{mistake} – fix or remove it." for mistake in error.mistakes]
        return finding, None
    except Exception as error:  # noqa: BLE001
        finding.problems.append(f"{type(error).__name__}: {error}")
        return finding, None
    finding.add("file", settings.file or "none", "" if settings.file else "`longwatch init` writes one")
    for setting in SETTINGS:
        value = getattr(settings, setting.attribute)
        finding.add(setting.key, _setting_text(value), settings.origins[setting.key])
    return finding, settings


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = ", ".join(value) if isinstance(value, tuple) else value
    return "–" if text in (None, "") else str(text)


def misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """A warning for each variable whose name is close to one of ours, and so has no effect."""
    import difflib

    ours = [*(setting.variable for setting in SETTINGS), *OTHER_VARIABLES]
    found = []
    for name in sorted(environment):
        if name.startswith("LONGWATCH_") and name not in ours:
            close = difflib.get_close_matches(name, ours, n=1, cutoff=0.85)
            if close:
                found.append(f"Unknown variable {name}. Did you mean {close[0]}?")
    return found


def check_journal(settings: Settings, clock: Clock, finding: Finding) -> None:
    """Open the journal and describe it."""
    from longwatch.cli.resolve import sqlite_path
    from longwatch.journal.factory import open_journal
    from longwatch.model.run_query import WORK

    finding.add("address", settings.journal)
    path = sqlite_path(settings.journal)
    if path is not None:
        path = path.absolute()
        finding.add("kind", "SQLite")
        if not path.exists():
            finding.add("file", path, "does not exist yet; the first event creates it")
            _check_parent(path, finding)
            return
        _check_file(path, finding)
    elif settings.journal.startswith("dynamodb:"):
        finding.add("kind", "DynamoDB")
        _check_journal_table(settings, finding, clock)
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


def _check_journal_table(settings: Settings, finding: Finding, clock: Clock) -> None:
    from longwatch.cli.resolve import table_address
    from longwatch.storage.dynamodb.table_check import check_table

    address = table_address(settings)
    report = check_table(address, clock=clock)
    finding.add("table", address.table, f"layout {address.layout}")
    _add_table_facts(report, address.endpoint, finding)
    finding.add("time to live", report.ttl or "unknown: no permission to describe it")
    finding.warnings += report.warnings
    skew = report.clock_skew_seconds
    if skew is not None:
        finding.add("clock skew", f"{skew:+.1f} s", "this machine against the service")
        if abs(skew) > MAX_SKEW_SECONDS:
            side = "ahead of" if skew > 0 else "behind"
            finding.problems.append(
                f"This machine's clock is {abs(skew):.1f} s {side} DynamoDB's, so events get wrong times. "
                "Synchronise it (NTP)."
            )


def _add_table_facts(report: TableReport, endpoint: str | None, finding: Finding) -> None:
    finding.add("region", report.address.region or "–", endpoint or "")
    finding.add("status", report.status, report.billing)
    finding.add("items", f"{report.item_count:,}", "DynamoDB counts about every six hours")


def check_integrity(settings: Settings, clock: Clock, full: bool, finding: Finding) -> None:
    """Check the structure of a SQLite file and decode its events."""
    from longwatch.cli.render.terminal import ProgressLine
    from longwatch.cli.resolve import sqlite_path
    from longwatch.journal.sqlite.salvage import Salvage
    from longwatch.model.event import UNREADABLE

    path = sqlite_path(settings.journal)
    if path is None or not path.exists():
        why = "only a journal in a file can be checked" if path is None else "the file does not exist yet"
        finding.add("checked", "nothing", why)
        return
    path = path.absolute()
    faults = structure_faults(path)
    finding.add("structure", "damaged" if faults else "sound", "PRAGMA integrity_check")
    finding.problems += [f"SQLite reports: {fault}" for fault in faults[:MAX_FAULTS]]
    with (
        Salvage(path, now_seconds=clock.now_ms() // 1000) as salvage,
        ProgressLine("Decoding events:", clock=clock) as progress,
    ):
        # Of a damaged file all events are decoded, to name every affected run.
        every = 1 if full or faults else max(1, salvage.last_position() // SAMPLE_EVENTS)
        sample = salvage.arrivals(progress=progress.at) if every == 1 else salvage.sample(every)
        decoded, unreadable = 0, dict[str, int]()
        for _, event in sample:
            decoded += 1
            if event.type == UNREADABLE:
                unreadable[event.run_id] = unreadable.get(event.run_id, 0) + 1
        lost = salvage.lost_rows
    finding.add(
        "decoded", f"{decoded:,} events", "all" if every == 1 else f"1 of {every}; --full decodes all"
    )
    for run_id, count in sorted(unreadable.items()):
        events = "1 event" if count == 1 else f"{count:,} events"
        finding.problems.append(f"{events} of run {run_id} cannot be read: `longwatch verify {run_id}`.")
    if lost > sum(unreadable.values()):
        finding.problems.append(f"{lost:,} positions cannot be read, not even the run they belong to.")
    if finding.problems:
        finding.problems.append(
            f"Salvage the readable events into a new file: `longwatch recover {path} --to NEW.db`. "
            "Check the disk, and keep the damaged file until the new one is verified."
        )


def structure_faults(path: Path) -> list[str]:
    """The faults that SQLite's integrity check reports.

    The quick check does not suffice: it does not compare indexes with their tables, and an index that lacks
    an entry hides an event.
    """
    import sqlite3

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return [str(error)]
    lines = [line for (text,) in found for line in str(text).splitlines()]
    return [] if lines == ["ok"] else lines


def check_documents(settings: Settings, finding: Finding) -> None:
    """Describe the document store."""
    from importlib.util import find_spec

    from longwatch.documents.stores.factory import documents_url, locate_documents
    from longwatch.storage.urls import TableAddress

    url = documents_url(settings)
    location = locate_documents(url, settings)
    finding.add("address", url)
    if find_spec("pycrdt") is None:
        finding.add("extra", "not installed", f"only for documents: {MissingExtra('Keeping them', 'server')}")
    if isinstance(location, Path):
        _check_store_file(location, "document", settings, finding)
    elif isinstance(location, TableAddress):
        from longwatch.documents.stores.dynamodb_table import SHAPE

        is_chosen = settings.documents is not None
        _check_store_table(location, SHAPE, "documents of projects", finding, is_required=is_chosen)


def check_executions(settings: Settings, finding: Finding, *, url: str | None = None) -> None:
    """Describe the execution store. A table that the user named has to exist."""
    from longwatch.executions.stores.factory import executions_url, locate_executions
    from longwatch.storage.urls import TableAddress

    is_chosen = url is not None
    url = url or executions_url(settings)
    location = locate_executions(url, settings)
    finding.add("address", url)
    if isinstance(location, Path):
        _check_store_file(location, "execution", settings, finding)
    elif isinstance(location, TableAddress):
        from longwatch.executions.stores.dynamodb import NEWEST_BY_STATUS, SHAPE

        report = _check_store_table(location, SHAPE, "`longwatch executions`", finding, is_required=is_chosen)
        for index in report.missing_indexes if report else ():
            finding.warnings.append(
                f"Table {location.table!r} has no index {index}: executions whose Status another writer "
                f"changed are found only under {', '.join(settings.other_statuses) or 'no status'}, the "
                f"newest {NEWEST_BY_STATUS} of each. Deploy {SHAPE.template} again or add the index, or list "
                "more statuses in executions.other_statuses."
            )


def _check_store_file(path: Path, kind: str, settings: Settings, finding: Finding) -> None:
    """Read the file without creating tables in it."""
    import sqlite3

    from longwatch.cli.resolve import sqlite_path

    path = path.absolute()
    journal = sqlite_path(settings.journal)
    if not path.exists():
        finding.add("file", path, f"does not exist yet; the first {kind} creates it")
        _check_parent(path, finding)
        return
    if journal is not None and journal.absolute() == path:
        finding.add("file", path, "the journal's")
    else:
        _check_file(path, finding)
    schema, table = f"{kind}_schema", f"{kind}s"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (schema,)).fetchone()
            if found is None:
                finding.add("kept", "none yet")
                return
            [version] = connection.execute(f"SELECT version FROM {schema}").fetchone()
            [count] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    except sqlite3.Error as error:
        raise JournalUnusable(
            f"{path} cannot be read ({error}). Check the journal above, or move the file away."
        ) from error
    finding.add("tables", f"version {version}")
    finding.add("kept", f"{count:,}")


def _check_store_table(
    address: TableAddress, shape: TableShape, needed_by: str, finding: Finding, *, is_required: bool
) -> TableReport | None:
    from longwatch.storage.dynamodb.table_check import check_shape

    finding.add("table", address.table)
    try:
        report = check_shape(address, shape)
    except TableProblem as error:
        if is_required or error.kind not in ("not-found", "access-denied"):
            raise
        finding.warnings.append(f"{error} It is needed only by {needed_by}.")
        return None
    _add_table_facts(report, address.endpoint, finding)
    return report


def check_outbox(settings: Settings, clock: Clock, finding: Finding) -> None:
    """Count the undelivered events of each journal."""
    from longwatch.recording.outbox import Outbox

    path = settings.outbox_path
    if not path.exists():
        finding.add("file", path, "does not exist: no event has had to wait")
        _check_parent(path, finding)
        return
    _check_file(path, finding)
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
        finding.problems.append(f"The journal refused event {event_id}, which stays in the outbox: {reason}")


def check_notifications(settings: Settings, clock: Clock, finding: Finding) -> None:
    """Check the rules, and count the messages that wait or were given up."""
    from longwatch.notifications.channels.registry import CHANNELS
    from longwatch.notifications.queue import NotificationQueue
    from longwatch.notifications.rules import parse_rules
    from longwatch.notifications.stores.factory import open_notifications
    from longwatch.storage.urls import locate_store

    rules, mistakes = parse_rules(settings.notify, CHANNELS)
    finding.problems += [f"{settings.file}: {mistake}" for mistake in mistakes]
    finding.add("rules", ", ".join(rule.name for rule in rules) or "none")
    place = locate_store(settings.journal, "journal", settings=settings)
    if not rules or (isinstance(place, Path) and not _has_notifications(place)):
        return
    with closing(open_notifications(settings, clock=clock)) as store:
        queue = NotificationQueue(store, clock, holder="doctor")
        waiting, dead = sum(1 for _ in queue.queued()), len(queue.dead_letters(COUNTED_MESSAGES))
    finding.add("waiting", count_text(waiting, "message"))
    finding.add("dead letters", dead if dead < COUNTED_MESSAGES else f"{dead:,} or more")
    if dead:
        finding.warnings.append(
            "Messages were given up. `longwatch notify status` states why, and `longwatch notify retry` "
            "queues them again."
        )


def _has_notifications(path: Path) -> bool:
    """Whether a sender has used this file: a check creates no tables."""
    import sqlite3

    if not path.exists():
        return False
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        query = "SELECT 1 FROM sqlite_master WHERE name = 'notification_schema'"
        return connection.execute(query).fetchone() is not None


def check_versions(finding: Finding) -> None:
    """List the installed versions."""
    import sqlite3
    from importlib.metadata import PackageNotFoundError, version

    finding.add("python", platform.python_version(), sys.executable)
    finding.add("sqlite", sqlite3.sqlite_version)
    for package in PACKAGES:
        try:
            finding.add(package, version(package))
        except PackageNotFoundError:
            finding.add(package, "not installed")


def check_space(path: Path, free_bytes: int, finding: Finding) -> None:
    """Report the free space on the disk of a file, and whether it suffices."""
    finding.add("free space", size_text(free_bytes))
    if free_bytes < NEEDED_BYTES:
        finding.problems.append(f"No space left for {path}. Free some disk space.")
    elif free_bytes < AMPLE_BYTES:
        finding.warnings.append(
            f"Only {size_text(free_bytes)} are free for {path}. Free some disk space, or delete old events: "
            "`longwatch prune --older-than 30d`."
        )


def _check_file(path: Path, finding: Finding) -> None:
    about = path.stat()
    log = path.with_name(f"{path.name}-wal")
    size = about.st_size + (log.stat().st_size if log.exists() else 0)
    finding.add("file", path, size_text(size))
    finding.add("permissions", stat.filemode(about.st_mode))
    check_space(path, shutil.disk_usage(path.parent).free, finding)
    if about.st_mode & (stat.S_IRGRP | stat.S_IROTH) and os.name == "posix":
        finding.warnings.append(f"Other users of this machine can read {path}. Restrict it: chmod 600 {path}")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        finding.problems.append(
            f"This user cannot write to {path} or its folder, so events cannot be stored. "
            "Change the permissions, or choose another journal."
        )


def _check_parent(path: Path, finding: Finding) -> None:
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        finding.problems.append(
            f"{path} cannot be created: no permission to write in {folder}. Choose another folder."
        )


def size_text(size: int) -> str:
    """`4.0 KB`, `1.2 MB`."""
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
