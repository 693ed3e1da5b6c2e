-- Runtime operations, their own logs, and the instances that they act on. Ids of operations sort
-- by creation. `active` is 1 until nothing can follow.

CREATE TABLE operations (
    row         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    principal   TEXT    NOT NULL,
    instance_id TEXT    NOT NULL,
    active      INTEGER NOT NULL,
    end_time    INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    request     BLOB    NOT NULL,
    body        BLOB    NOT NULL
) STRICT;

CREATE INDEX operations_principal ON operations (principal, id);
CREATE INDEX operations_instance ON operations (instance_id, id);
CREATE INDEX operations_active ON operations (id) WHERE active = 1;
CREATE INDEX operations_ended ON operations (end_time) WHERE end_time > 0;

CREATE TABLE operation_events (
    operation INTEGER NOT NULL REFERENCES operations (row) ON DELETE CASCADE,
    sequence  INTEGER NOT NULL,
    time      INTEGER NOT NULL,
    type      TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (operation, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
    id       TEXT    PRIMARY KEY,
    revision INTEGER NOT NULL,
    body     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
