-- Events that wait to be shipped, each for one journal. `refused` says why a journal will never take it.
CREATE TABLE waiting (
    id            INTEGER PRIMARY KEY,
    journal       TEXT    NOT NULL,
    event_id      TEXT    NOT NULL,
    occurred_at   INTEGER NOT NULL,
    line          TEXT    NOT NULL,
    claimed_until INTEGER NOT NULL DEFAULT 0,
    refused       TEXT,
    UNIQUE (journal, event_id)
) STRICT;

CREATE INDEX waiting_to_ship ON waiting (journal, id) WHERE refused IS NULL;
