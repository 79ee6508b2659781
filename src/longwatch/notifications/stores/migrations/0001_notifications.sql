-- What notifiers know: the progress of rules, open conditions, the queue, dead letters and past deliveries.
CREATE TABLE notifications (
    key     TEXT    PRIMARY KEY,
    value   TEXT    NOT NULL,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
