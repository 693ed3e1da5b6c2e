-- Tasks and what they own. Times are milliseconds since the epoch, 0 means not yet; a `body` is
-- JSON without what stands in columns. `ended` is 1 in the terminal states. `row` is what the other tables refer to: ids are text, and
-- an integer key keeps neighbours in time on the same page.

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

-- The scheduler, the timers and recovery. State 1 is SUBMITTED. Conditions are kept to comparisons:
-- each write of a task evaluates all of them, and an IN costs it more than an index does.
CREATE INDEX tasks_queued ON tasks (capability_id, priority DESC, create_time, id) WHERE state = 1;
CREATE INDEX tasks_open ON tasks (state) WHERE ended = 0 AND state > 1;
CREATE INDEX tasks_due ON tasks (due_time) WHERE due_time > 0;
CREATE INDEX tasks_ended ON tasks (end_time) WHERE end_time > 0;

-- Lists. A list by anything but the time of creation is a merge of the open tasks, which are few
-- and sorted when they are read, with one of the indexes of ended ones, which are written once.
-- Equal times are few too, so the id is not part of these; equal priorities are many.
CREATE INDEX tasks_context ON tasks (context_id);
CREATE INDEX tasks_create_time ON tasks (principal, create_time);
CREATE INDEX tasks_capability ON tasks (principal, capability_id, create_time);
CREATE INDEX tasks_state ON tasks (principal, state, create_time);
CREATE INDEX tasks_state_time ON tasks (principal, state, state_time) WHERE ended = 1;
CREATE INDEX tasks_start_time ON tasks (principal, start_time) WHERE ended = 1;
CREATE INDEX tasks_update_time ON tasks (principal, update_time) WHERE ended = 1;
CREATE INDEX tasks_priority ON tasks (principal, priority, id) WHERE ended = 1;

-- How many tasks there are of each kind, so that a total costs nothing.
CREATE TABLE task_counts (
    principal     TEXT    NOT NULL,
    capability_id TEXT    NOT NULL,
    state         INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    PRIMARY KEY (principal, capability_id, state)
) STRICT, WITHOUT ROWID;

-- Apart from the task because they may be large and seldom change.
CREATE TABLE task_requests (
    task INTEGER PRIMARY KEY REFERENCES tasks (row) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE task_checkpoints (
    task INTEGER PRIMARY KEY REFERENCES tasks (row) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE events (
    task     INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    time     INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (task, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE state_changes (
    task     INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (task, sequence)
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

CREATE INDEX artifacts_newest ON artifacts (artifact_id, create_time);

-- One row a digest: a growing artifact does not write all of them again.
CREATE TABLE artifact_digests (
    artifact INTEGER NOT NULL REFERENCES artifacts (row) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    digest   TEXT    NOT NULL,
    PRIMARY KEY (artifact, position)
) STRICT, WITHOUT ROWID;

-- `raw` is the bytes of all RAW parts one after the other; the body says how many each has.
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

CREATE TABLE messages (
    row        INTEGER PRIMARY KEY,
    task       INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    message_id TEXT    NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (task, message_id),
    UNIQUE (task, position)
) STRICT;

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

CREATE INDEX idempotency_keys_create_time ON idempotency_keys (create_time);

CREATE TABLE capabilities (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE subscriptions (
    id   TEXT    PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES tasks (row) ON DELETE CASCADE,
    body BLOB    NOT NULL
) STRICT;

CREATE INDEX subscriptions_task ON subscriptions (task);
