-- Permissions that were granted, and access tokens: the hash of each, never its text (S-08).
CREATE TABLE permission_grants (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE access_tokens (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
