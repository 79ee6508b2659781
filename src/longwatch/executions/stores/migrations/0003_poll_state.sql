-- What pollers still have to do, read from the record, so that it holds whoever writes the record.
ALTER TABLE executions ADD COLUMN poll_state TEXT GENERATED ALWAYS AS (json_extract(record, '$.PollState')) VIRTUAL;

-- Sparse: closed executions, which are most of them, are not in it.
CREATE INDEX executions_by_poll_state ON executions (poll_state, started_at) WHERE poll_state IS NOT NULL;

-- Executions that were polled before and are open under a status of another writer.
UPDATE executions SET record = json_set(record, '$.PollState', 'OPEN')
WHERE status NOT IN ('COMPLETED', 'PARTIAL', 'FAILED', 'CANCELLED', 'UNKNOWN')
  AND coalesce(json_extract(record, '$.Version'), 0) > 0
  AND json_extract(record, '$.Verdict') IS NULL;
