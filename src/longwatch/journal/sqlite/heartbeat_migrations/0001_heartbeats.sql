-- When each process that records was last alive, in epoch milliseconds. Overwritten: heartbeats are not events.
CREATE TABLE heartbeats (
    process_id TEXT    NOT NULL PRIMARY KEY,
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
