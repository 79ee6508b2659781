CREATE TABLE snapshots (
    run_id TEXT NOT NULL,
    view   TEXT NOT NULL,
    state  TEXT NOT NULL,
    digest TEXT NOT NULL,
    body   BLOB NOT NULL,
    UNIQUE (run_id, view)
) STRICT;
