-- The number of each execution's last write, so that one look tells what has changed since another.
CREATE TABLE execution_changes (
    change       INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT    NOT NULL,
    plan_id      TEXT    NOT NULL,
    UNIQUE (execution_id, plan_id)
) STRICT;

INSERT INTO execution_changes (execution_id, plan_id)
SELECT execution_id, plan_id FROM executions ORDER BY started_at;

-- Triggers, because others write to the table as well.
CREATE TRIGGER execution_added AFTER INSERT ON executions BEGIN
    DELETE FROM execution_changes WHERE execution_id = NEW.execution_id AND plan_id = NEW.plan_id;
    INSERT INTO execution_changes (execution_id, plan_id) VALUES (NEW.execution_id, NEW.plan_id);
END;

CREATE TRIGGER execution_updated AFTER UPDATE ON executions BEGIN
    DELETE FROM execution_changes WHERE execution_id = NEW.execution_id AND plan_id = NEW.plan_id;
    INSERT INTO execution_changes (execution_id, plan_id) VALUES (NEW.execution_id, NEW.plan_id);
END;
