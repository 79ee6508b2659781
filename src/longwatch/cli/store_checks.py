"""What `longwatch doctor` looks at beside the journal: where documents and executions are kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from longwatch.cli.journal_checks import Finding, check_parent, look_at_file
from longwatch.documents.stores.factory import documents_url, locate_documents
from longwatch.errors import JournalUnusable, MissingExtra, TableProblem
from longwatch.executions.stores.factory import executions_url, locate_executions
from longwatch.settings import Settings
from longwatch.storage.urls import TableAddress, locate_store

if TYPE_CHECKING:
    from longwatch.storage.dynamodb.table_check import TableReport

NOT_NEEDED_BY_ALL = ("not-found", "access-denied")  # trouble that is none for whoever keeps nothing there

_COUNT_DOCUMENTS = "SELECT count(*) FROM documents"
_COUNT_EXECUTIONS = "SELECT count(*) FROM executions"


def look_at_documents(settings: Settings, finding: Finding) -> None:
    """Where the documents of projects are, and whether they can be kept there."""
    url = documents_url(settings)
    location = locate_documents(url, settings)
    finding.add("address", url)
    if find_spec("pycrdt") is None:
        finding.add("extra", "not installed", f"only for documents: {MissingExtra('Keeping them', 'server')}")
    if isinstance(location, Path):
        _look_at_file(location, ("document_schema", _COUNT_DOCUMENTS), settings, finding)
    elif isinstance(location, TableAddress):
        from longwatch.documents.stores.dynamodb_table import SHAPE

        is_chosen = settings.documents is not None
        _look_at_table(location, SHAPE, "documents of projects", finding, is_chosen=is_chosen)


def look_at_executions(settings: Settings, finding: Finding, *, url: str | None = None) -> None:
    """Where executions are, and whether they can be kept there. A table that is named has to be there."""
    is_chosen = url is not None
    url = url or executions_url(settings)
    location = locate_executions(url, settings)
    finding.add("address", url)
    if isinstance(location, Path):
        _look_at_file(location, ("execution_schema", _COUNT_EXECUTIONS), settings, finding)
    elif isinstance(location, TableAddress):
        from longwatch.executions.stores.dynamodb import NEWEST_BY_STATUS, SHAPE

        report = _look_at_table(location, SHAPE, "`longwatch executions`", finding, is_chosen=is_chosen)
        for index in report.missing_indexes if report else ():
            finding.warnings.append(
                f"Table {location.table!r} has no index {index}: executions whose Status another writer "
                f"changed are found only under {', '.join(settings.other_statuses) or 'no status'}, the "
                f"newest {NEWEST_BY_STATUS} of each. Deploy {SHAPE.template} again or add the index, or list "
                "more statuses in executions.other_statuses."
            )


def _look_at_file(path: Path, tables: Sequence[str], settings: Settings, finding: Finding) -> None:
    """A file that is read as it is: looking makes no tables in it."""
    import sqlite3

    path = path.absolute()
    journal = locate_store(settings.journal, "journal", settings=settings)
    is_shared = isinstance(journal, Path) and journal.absolute() == path
    if not path.exists():
        finding.add("file", path, "not there yet; the first one creates it")
        check_parent(path, finding)
        return
    if is_shared:
        finding.add("file", path, "the journal's")
    else:
        look_at_file(path, finding)
    schema, count = tables
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (schema,)).fetchone()
            if found is None:
                finding.add("kept", "none yet")
                return
            finding.add(
                "tables", f"version {connection.execute(f'SELECT version FROM {schema}').fetchone()[0]}"
            )
            finding.add("kept", f"{connection.execute(count).fetchone()[0]:,}")
    except sqlite3.Error as error:
        raise JournalUnusable(
            f"{path} cannot be read ({error}). Look at the journal above, or move the file away."
        ) from error


def _look_at_table(
    at: TableAddress, shape: object, needed_by: str, finding: Finding, *, is_chosen: bool
) -> TableReport | None:
    from longwatch.storage.dynamodb.errors import TableShape
    from longwatch.storage.dynamodb.table_check import check_shape

    assert isinstance(shape, TableShape)
    finding.add("table", at.table)
    try:
        report = check_shape(at, shape)
    except TableProblem as error:
        if is_chosen or error.kind not in NOT_NEEDED_BY_ALL:
            raise
        finding.warnings.append(f"{error} It is needed by {needed_by} only.")
        return None
    finding.add("region", report.address.region or "–", at.endpoint or "")
    finding.add("status", report.status, report.billing)
    finding.add("items", f"{report.item_count:,}", "DynamoDB counts about every six hours")
    return report
