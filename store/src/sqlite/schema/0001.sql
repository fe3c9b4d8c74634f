-- Schema version 1. Do not change the statements: databases with this schema exist. Add a new file instead.
--
-- Timestamps are milliseconds since 1970. Large rows with many concurrent inserts are in plain rowid tables, so that
-- rows of one commit share pages and only the small index entries are spread. Small rows that are read only by key are
-- in WITHOUT ROWID tables, which need one lookup.

-- Counters and flags: clean shutdown, epoch of the subscription set, last claim number (fencing token), and a value
-- that is written only to test whether writes succeed.
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('clean', 1), ('epoch', 0), ('claims', 0), ('probe', 0);

CREATE TABLE tasks (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    context_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    state TEXT NOT NULL,
    priority TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    revision INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    artifacts INTEGER NOT NULL,
    pushes INTEGER NOT NULL,
    -- 1 if retention has removed the events.
    trimmed INTEGER NOT NULL DEFAULT 0,
    metadata TEXT,
    status TEXT
);
-- A list is merged from one index range per state, so the same index serves lists with and without a state filter,
-- without skipping tasks in other states. The index by context does not contain updated_at, because every change of a
-- task would have to update it.
CREATE INDEX tasks_owner ON tasks (owner, state, updated_at, id);
CREATE INDEX tasks_state ON tasks (state, updated_at, id);
CREATE INDEX tasks_context ON tasks (context_id);
CREATE INDEX tasks_finished ON tasks (trimmed, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE messages (
    task_id TEXT NOT NULL,
    idx INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (task_id, idx)
) WITHOUT ROWID;

-- The position is assigned at the first write of an artifact and does not change.
CREATE TABLE artifacts (
    position INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    artifact_id TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (task_id, artifact_id)
);

CREATE TABLE pushes (
    position INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    channel TEXT NOT NULL,
    events TEXT NOT NULL,
    target TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (task_id, id)
);

CREATE TABLE streams (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    participants TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    closed_at INTEGER,
    revision INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    trimmed INTEGER NOT NULL DEFAULT 0,
    metadata TEXT
);
CREATE INDEX streams_open ON streams (updated_at) WHERE closed_at IS NULL;
CREATE INDEX streams_closed ON streams (trimmed, closed_at) WHERE closed_at IS NOT NULL;

CREATE TABLE events (
    row INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (subject, seq)
);

CREATE TABLE blobs (
    row INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    bytes TEXT NOT NULL
);
CREATE TABLE blob_refs (
    subject TEXT NOT NULL,
    blob BLOB NOT NULL,
    PRIMARY KEY (subject, blob)
) WITHOUT ROWID;
CREATE INDEX blob_refs_blob ON blob_refs (blob);

-- Work queue. `wake_at` is when the task can be claimed: when it is due or its lease expires. `ready` is set when this
-- time has passed, so that claiming does not scan tasks that cannot be claimed.
CREATE TABLE work (
    task_id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    priority INTEGER NOT NULL,
    position INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    wake_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    node TEXT
) WITHOUT ROWID;
CREATE INDEX work_ready ON work (agent, priority DESC, position) WHERE ready = 1;
CREATE INDEX work_asleep ON work (wake_at) WHERE ready = 0;

CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX claims_expiry ON claims (expires_at);

CREATE TABLE quotas (
    key TEXT PRIMARY KEY,
    full_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX quotas_full ON quotas (full_at);

-- `state` is 0 for waiting, 1 for delivered, 2 for dead. `head` is 1 for the first waiting entry of its group.
CREATE TABLE outbox (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    key TEXT NOT NULL,
    grp TEXT,
    owner TEXT NOT NULL,
    subject TEXT,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state INTEGER NOT NULL,
    head INTEGER NOT NULL,
    settled_at INTEGER,
    error TEXT,
    payload TEXT NOT NULL,
    UNIQUE (channel, key)
);
CREATE INDEX outbox_due ON outbox (head, channel, due_at) WHERE state = 0;
CREATE INDEX outbox_group ON outbox (grp, head) WHERE state = 0 AND grp IS NOT NULL;
CREATE INDEX outbox_settled ON outbox (state, settled_at) WHERE state > 0;

CREATE TABLE subscriptions (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    -- Time at which it was denied, revoked or found expired.
    ended_at INTEGER,
    revision INTEGER NOT NULL,
    -- Sequence number of the last delivery.
    last_seq INTEGER NOT NULL,
    patterns TEXT NOT NULL,
    allowed TEXT,
    about TEXT
);
CREATE INDEX subscriptions_owner ON subscriptions (owner, created_at);
CREATE INDEX subscriptions_state ON subscriptions (state, created_at);
CREATE INDEX subscriptions_age ON subscriptions (created_at);
CREATE INDEX subscriptions_ended ON subscriptions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX subscriptions_expiry ON subscriptions (expires_at) WHERE expires_at IS NOT NULL;

-- A signal is removed with its last delivery.
CREATE TABLE signals (
    row INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    id TEXT NOT NULL,
    publisher TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- Either the body, or a reference to an event.
    body TEXT,
    subject TEXT,
    event_seq INTEGER
);

-- Deliveries are removed when they are acknowledged. `dead_at` is the time at which one became a dead letter.
CREATE TABLE deliveries (
    subscription_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    signal_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    dead_at INTEGER,
    PRIMARY KEY (subscription_id, seq)
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (subscription_id, due_at, seq) WHERE dead_at IS NULL;
CREATE INDEX deliveries_id ON deliveries (subscription_id, signal_id);
CREATE INDEX deliveries_signal ON deliveries (signal);
CREATE INDEX deliveries_dead ON deliveries (dead_at) WHERE dead_at IS NOT NULL;

-- Acknowledged signals per subscription, to distinguish a repeated acknowledgement from an invalid one.
CREATE TABLE acked (
    subscription_id TEXT NOT NULL,
    signal_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, signal_id)
) WITHOUT ROWID;
CREATE INDEX acked_at ON acked (at);
