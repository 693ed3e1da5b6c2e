-- AIOS sessions of client programs (wire.md 1.2).
CREATE TABLE client_sessions (
    id TEXT PRIMARY KEY,
    expire_time INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
