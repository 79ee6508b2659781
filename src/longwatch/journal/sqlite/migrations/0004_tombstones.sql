-- One row for each run that was deleted on request; nothing else of the run is left. Its events are removed in
-- small transactions, each of which adds to `events` and `digest`. Until `is_purged`, readers hide the rest.
CREATE TABLE tombstones (
    run_id     TEXT    NOT NULL PRIMARY KEY,
    deleted_at INTEGER NOT NULL,
    by         TEXT    NOT NULL,
    events     INTEGER NOT NULL,
    digest     TEXT    NOT NULL,
    is_purged  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_unpurged ON tombstones (run_id) WHERE is_purged = 0;
