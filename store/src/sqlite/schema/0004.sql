-- Request log: one row per answered request.

CREATE TABLE pairs (
    row INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    took INTEGER NOT NULL,
    id TEXT,
    method TEXT NOT NULL,
    who TEXT NOT NULL,
    client TEXT NOT NULL,
    correlation TEXT NOT NULL,
    task_id TEXT,
    outcome TEXT NOT NULL,
    code INTEGER,
    address TEXT
) STRICT;
CREATE INDEX pairs_age ON pairs (at);
CREATE INDEX pairs_by_id ON pairs (id, at) WHERE id IS NOT NULL;
CREATE INDEX pairs_by_correlation ON pairs (correlation, at);
CREATE INDEX pairs_by_task ON pairs (task_id, at) WHERE task_id IS NOT NULL;
