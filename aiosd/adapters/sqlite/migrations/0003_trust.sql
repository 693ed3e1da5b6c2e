-- Webhooks and their outbox, secrets at rest, the audit chain.

-- `due_time` is the next_time of the oldest pending delivery, 0 without one: the loop that posts
-- reads this index and nothing else. `endpoint` is scheme://host:port.
CREATE TABLE webhooks (
    row        INTEGER PRIMARY KEY,
    task       INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    webhook_id TEXT    NOT NULL,
    endpoint   TEXT    NOT NULL,
    due_time   INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (task, webhook_id)
) STRICT;

CREATE INDEX webhooks_due ON webhooks (due_time) WHERE due_time > 0;

-- State 1 is PENDING. `content` is the bytes that are signed and sent; empty once they arrived.
CREATE TABLE deliveries (
    row       INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    webhook   INTEGER NOT NULL REFERENCES webhooks (row) ON DELETE CASCADE,
    principal TEXT    NOT NULL,
    state     INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    next_time INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    content   BLOB    NOT NULL
) STRICT;

CREATE INDEX deliveries_pending ON deliveries (webhook) WHERE state = 1;
CREATE INDEX deliveries_webhook ON deliveries (webhook);
CREATE INDEX deliveries_principal ON deliveries (principal);

-- Sealed by the daemon's key file; AES-256-GCM, the nonce in front (S-28).
CREATE TABLE secrets (
    id     TEXT    PRIMARY KEY,
    task   INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    sealed BLOB    NOT NULL
) STRICT;

CREATE INDEX secrets_task ON secrets (task);

-- Apart from task history and not deleted with it (R200). Each hash covers the one before (S-32).
CREATE TABLE audit_records (
    sequence      INTEGER PRIMARY KEY,
    time          INTEGER NOT NULL,
    event         TEXT    NOT NULL,
    principal     TEXT    NOT NULL,
    method        TEXT    NOT NULL,
    task_id       TEXT    NOT NULL,
    capability_id TEXT    NOT NULL,
    decision      TEXT    NOT NULL,
    details       TEXT    NOT NULL,
    request_hash  TEXT    NOT NULL,
    previous_hash BLOB    NOT NULL,
    hash          BLOB    NOT NULL
) STRICT;

CREATE INDEX audit_records_task ON audit_records (task_id) WHERE task_id <> '';

CREATE TRIGGER audit_records_keep BEFORE DELETE ON audit_records
BEGIN
    SELECT raise(ABORT, 'the audit is append-only');
END;

CREATE TRIGGER audit_records_stay BEFORE UPDATE ON audit_records
BEGIN
    SELECT raise(ABORT, 'the audit is append-only');
END;
