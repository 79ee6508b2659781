"""The SQL of the journal in a SQLite file."""

from __future__ import annotations

from longwatch.journal.sqlite.rows import EVENT_COLUMNS, RAW_COLUMNS, STORED_COLUMNS

ROW = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
ROWS_AT_ONCE = 64  # with 14 values each; some builds of SQLite limit a statement to 999
APPEND, APPEND_MANY = (
    f"INSERT INTO events ({EVENT_COLUMNS}, position) VALUES {rows} ON CONFLICT (event_id) DO NOTHING"
    for rows in (ROW, ",".join([ROW] * ROWS_AT_ONCE))
)
READ = f"""
    SELECT {STORED_COLUMNS} FROM events
    WHERE run_id = ? AND position > ? AND (ttl IS NULL OR ttl > ?)
        AND NOT EXISTS (SELECT 1 FROM tombstones WHERE tombstones.run_id = ?)
    ORDER BY position LIMIT ?"""
READ_ARRIVALS = f"""
    SELECT {STORED_COLUMNS} FROM events
    WHERE position > ? AND (ttl IS NULL OR ttl > ?)
        AND (run_id NOT IN (SELECT run_id FROM tombstones WHERE is_purged = 0) OR type = 'run_deleted')
    ORDER BY position LIMIT ?"""
OWN = """
    run_id = :run_id AND (ttl IS NULL OR ttl > :now)
    AND NOT EXISTS (SELECT 1 FROM tombstones WHERE tombstones.run_id = :run_id)"""
READ_LAST = f"""
    WITH arrived AS MATERIALIZED (  -- comparing with their times is faster than sorting all events
        SELECT occurred_at FROM events WHERE {OWN} ORDER BY position DESC LIMIT :limit
    )
    SELECT {STORED_COLUMNS} FROM events WHERE position IN (
        SELECT position FROM events WHERE {OWN} AND occurred_at >= (SELECT min(occurred_at) FROM arrived)
        ORDER BY occurred_at DESC, ifnull(producer, '') DESC, ifnull(number, 0) DESC, event_id DESC
        LIMIT :limit)"""
LAST_ARRIVAL = "SELECT last_position FROM arrivals"
COUNT_EVENTS = "SELECT count(*) FROM events WHERE run_id = ?"

ANY_TTL = "SELECT 1 FROM events WHERE ttl IS NOT NULL LIMIT 1"
NEXT_ARRIVALS = "UPDATE arrivals SET last_position = last_position + ? RETURNING last_position"
READ_BY_ID = f"SELECT {RAW_COLUMNS} FROM events WHERE event_id = ?"
UPDATE_RUN = "UPDATE runs SET last_at = ?, summary = ? WHERE run_id = ?"
FIND_RUN_RAW = "SELECT CAST(summary AS BLOB) FROM runs WHERE run_id = ?"  # invalid UTF-8 is replaced
