-- Events in order of arrival. `position` is handed out by us, so that it never repeats after old events go.
CREATE TABLE events (
    position        INTEGER PRIMARY KEY,
    run_id          TEXT    NOT NULL,
    event_id        TEXT    NOT NULL,
    type            TEXT    NOT NULL,
    occurred_at     INTEGER NOT NULL,
    agent_name      TEXT,
    payload         TEXT    NOT NULL,
    call_id         TEXT,
    parent_call_id  TEXT,
    producer        TEXT,
    number          INTEGER,
    previous_digest TEXT,
    trace_id        TEXT,
    ttl             INTEGER
) STRICT;

CREATE UNIQUE INDEX events_by_id ON events (event_id);
CREATE INDEX events_by_run ON events (run_id, position);
CREATE INDEX events_by_ttl ON events (ttl) WHERE ttl IS NOT NULL;

-- One row a run: a projection of its events, kept in the same transaction. `search` is folded to one case.
CREATE TABLE runs (
    run_id     TEXT    NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    search     TEXT    NOT NULL,
    summary    TEXT    NOT NULL
) STRICT;

CREATE INDEX runs_by_start ON runs (started_at, run_id);
CREATE INDEX runs_by_status ON runs (status, started_at, run_id);
CREATE INDEX runs_by_kind ON runs (kind, started_at, run_id);

CREATE TABLE arrivals (last_position INTEGER NOT NULL) STRICT;
INSERT INTO arrivals VALUES (0);
