-- A project's version counts the changes of all its files.
CREATE TABLE document_projects (
    project    TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) STRICT;

-- The head of each document. A deleted one stays, so that its versions go on.
CREATE TABLE documents (
    id              INTEGER PRIMARY KEY,
    project         TEXT    NOT NULL,
    path            TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    project_version INTEGER NOT NULL,
    created_version INTEGER NOT NULL,
    last_modified   INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    sha256          TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    deleted         INTEGER NOT NULL,
    base            INTEGER NOT NULL,
    base_bytes      INTEGER NOT NULL,
    log_bytes       INTEGER NOT NULL,
    waits           INTEGER NOT NULL,
    UNIQUE (project, path)
) STRICT;

CREATE INDEX documents_by_change ON documents (project, project_version);

-- The log: one Yjs update a version, from `base` on, where a compacted log has the whole state.
CREATE TABLE document_updates (
    document INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    data     BLOB    NOT NULL,
    PRIMARY KEY (document, version)
) STRICT;
