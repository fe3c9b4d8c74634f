-- Records: small named values. Revisions are never reused, so the last one is stored in `meta`.

CREATE TABLE records (
    row INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    revision INTEGER NOT NULL,
    expires_at INTEGER,
    UNIQUE (kind, key)
) STRICT;
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;

INSERT INTO meta (name, value) VALUES ('records', 0);
