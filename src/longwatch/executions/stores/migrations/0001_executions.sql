-- Executions as records in JSON, and columns to find them by.
CREATE TABLE executions (
    execution_id TEXT    NOT NULL,
    plan_id      TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    record       TEXT    NOT NULL,
    PRIMARY KEY (execution_id, plan_id)
) STRICT;

CREATE INDEX executions_by_status ON executions (status, started_at);
CREATE INDEX executions_by_start ON executions (started_at);
