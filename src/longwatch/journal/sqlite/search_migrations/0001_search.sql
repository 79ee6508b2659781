CREATE TABLE event_texts (position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, body TEXT NOT NULL) STRICT;

CREATE INDEX event_texts_of_run ON event_texts (run_id);

CREATE VIRTUAL TABLE texts USING fts5(
    body, content = 'event_texts', content_rowid = 'position', tokenize = 'unicode61 remove_diacritics 0'
);

CREATE TABLE progress (position INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;

INSERT INTO progress VALUES (0, '');
