CREATE INDEX artifacts_newest ON artifacts (artifact_id, create_time);

CREATE INDEX audit_records_task ON audit_records (task_id) WHERE task_id <> '';

CREATE INDEX deliveries_pending ON deliveries (webhook) WHERE state = 1;

CREATE INDEX deliveries_principal ON deliveries (principal);

CREATE INDEX deliveries_webhook ON deliveries (webhook);

CREATE INDEX idempotency_keys_create_time ON idempotency_keys (create_time);

CREATE INDEX operations_active ON operations (id) WHERE active = 1;

CREATE INDEX operations_ended ON operations (end_time) WHERE end_time > 0;

CREATE INDEX operations_instance ON operations (instance_id, id);

CREATE INDEX operations_principal ON operations (principal, id);

CREATE INDEX secrets_task ON secrets (task);

CREATE INDEX subscriptions_task ON subscriptions (task);

CREATE INDEX tasks_capability ON tasks (principal, capability_id, create_time);

CREATE INDEX tasks_context ON tasks (context_id);

CREATE INDEX tasks_create_time ON tasks (principal, create_time);

CREATE INDEX tasks_due ON tasks (due_time) WHERE due_time > 0;

CREATE INDEX tasks_ended ON tasks (end_time) WHERE end_time > 0;

CREATE INDEX tasks_open ON tasks (state) WHERE ended = 0 AND state > 1;

CREATE INDEX tasks_priority ON tasks (principal, priority, id) WHERE ended = 1;

CREATE INDEX tasks_queued ON tasks (capability_id, priority DESC, create_time, id) WHERE state = 1;

CREATE INDEX tasks_start_time ON tasks (principal, start_time) WHERE ended = 1;

CREATE INDEX tasks_state ON tasks (principal, state, create_time);

CREATE INDEX tasks_state_time ON tasks (principal, state, state_time) WHERE ended = 1;

CREATE INDEX tasks_update_time ON tasks (principal, update_time) WHERE ended = 1;

CREATE INDEX webhooks_due ON webhooks (due_time) WHERE due_time > 0;

CREATE TABLE access_tokens (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE artifact_chunks (
    row         INTEGER PRIMARY KEY,
    task        INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    artifact_id TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    raw         BLOB    NOT NULL,
    UNIQUE (task, artifact_id, version, position)
) STRICT;

CREATE TABLE artifact_digests (
    artifact INTEGER NOT NULL REFERENCES artifacts (row) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    digest   TEXT    NOT NULL,
    PRIMARY KEY (artifact, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifacts (
    row         INTEGER PRIMARY KEY,
    task        INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    artifact_id TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    digests     INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    UNIQUE (task, artifact_id)
) STRICT;

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

CREATE TABLE capabilities (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE client_sessions (
    id TEXT PRIMARY KEY,
    expire_time INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

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

CREATE TABLE events (
    task     INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    time     INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (task, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    row         INTEGER PRIMARY KEY,
    principal   TEXT    NOT NULL,
    method      TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    target      TEXT    NOT NULL,
    create_time INTEGER NOT NULL,
    UNIQUE (key, principal, method)
) STRICT;

CREATE TABLE instances (
    id       TEXT    PRIMARY KEY,
    revision INTEGER NOT NULL,
    body     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    row        INTEGER PRIMARY KEY,
    task       INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    message_id TEXT    NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (task, message_id),
    UNIQUE (task, position)
) STRICT;

CREATE TABLE operation_events (
    operation INTEGER NOT NULL REFERENCES operations (row) ON DELETE CASCADE,
    sequence  INTEGER NOT NULL,
    time      INTEGER NOT NULL,
    type      TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (operation, sequence)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE permission_grants (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE schema_steps (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL) STRICT;

CREATE TABLE secrets (
    id     TEXT    PRIMARY KEY,
    task   INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    sealed BLOB    NOT NULL
) STRICT;

CREATE TABLE state_changes (
    task     INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (task, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE subscriptions (
    id   TEXT    PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    body BLOB    NOT NULL
) STRICT;

CREATE TABLE task_checkpoints (
    task INTEGER PRIMARY KEY REFERENCES tasks (row) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE task_counts (
    principal     TEXT    NOT NULL,
    capability_id TEXT    NOT NULL,
    state         INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    PRIMARY KEY (principal, capability_id, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_requests (
    task INTEGER PRIMARY KEY REFERENCES tasks (row) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE tasks (
    row           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    principal     TEXT    NOT NULL,
    context_id    TEXT    NOT NULL,
    capability_id TEXT    NOT NULL,
    state         INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    create_time   INTEGER NOT NULL,
    start_time    INTEGER NOT NULL,
    update_time   INTEGER NOT NULL,
    state_time    INTEGER NOT NULL,
    end_time      INTEGER NOT NULL,
    ended         INTEGER NOT NULL,
    due_time      INTEGER NOT NULL,
    revision      INTEGER NOT NULL,
    body          BLOB    NOT NULL
) STRICT;

CREATE TABLE webhooks (
    row        INTEGER PRIMARY KEY,
    task       INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    webhook_id TEXT    NOT NULL,
    endpoint   TEXT    NOT NULL,
    due_time   INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (task, webhook_id)
) STRICT;

CREATE TRIGGER audit_records_keep BEFORE DELETE ON audit_records
BEGIN
    SELECT raise(ABORT, 'the audit is append-only');
END;

CREATE TRIGGER audit_records_stay BEFORE UPDATE ON audit_records
BEGIN
    SELECT raise(ABORT, 'the audit is append-only');
END;
