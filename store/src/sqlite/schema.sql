-- Schema of the SQLite store, version 1. A released version is not edited: a later one is a migration (schema.rs).
--
-- Times are milliseconds since 1970 (UTC). JSON is text. Columns named `is_…` are 0 or 1.
--
-- Tables whose rows are large, or are added by many callers at once, have a row number: rows that are written together
-- are stored together, and only the small index entries are spread. Small rows that are found by their key are
-- WITHOUT ROWID, so that finding one is one search.

-- Single numbers.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES
    ('clean', 1),               -- 1 if the last process closed the database
    ('probe', 0),               -- written to find out whether writing works
    ('last_claim', 0),          -- number of the last claim of a task
    ('last_record_revision', 0),
    ('subscription_epoch', 0);  -- incremented by every change of a subscription

-- One row per task, with its position in the work queue.
CREATE TABLE tasks (
    number         INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    context_id     TEXT NOT NULL,    -- conversation; that of its first task has that task's id
    owner          TEXT NOT NULL,    -- principal that created it
    agent          TEXT NOT NULL,
    state          TEXT NOT NULL,
    priority       TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    status_at      INTEGER NOT NULL, -- time of the last change of `state`; the order of lists
    updated_at     INTEGER NOT NULL,
    finished_at    INTEGER,
    revision       INTEGER NOT NULL, -- optimistic concurrency: incremented by every change
    seq            INTEGER NOT NULL, -- sequence number of its last event
    generation     INTEGER NOT NULL, -- the greatest `events.generation`
    is_direct      INTEGER NOT NULL, -- its last message is a complete answer to the first
    message_count  INTEGER NOT NULL,
    artifact_count INTEGER NOT NULL,
    push_count     INTEGER NOT NULL, -- number of push subscriptions
    metadata       TEXT,             -- JSON object from the caller
    status_message TEXT,             -- message that accompanies the state, as in `messages.body`
    is_log_purged  INTEGER NOT NULL DEFAULT 0, -- retention has removed its events

    -- Position in the work queue; null if the task is not queued. The row is written anyway when a task is created,
    -- so this costs less than a table of its own.
    queue_agent        TEXT,
    queue_flow         TEXT,    -- owner and priority; the tasks of one flow run in order
    queue_turn         INTEGER, -- fair queueing: the least turn of an agent is claimed first
    queue_position     INTEGER, -- order within a turn
    queue_is_ready     INTEGER, -- queue_claimable_at has passed
    queue_claimable_at INTEGER, -- due time; the least integer if due at once, the greatest while claimed
    queue_attempt      INTEGER, -- number of claims, without those that were released
    queue_claim        INTEGER, -- number of the last claim (fencing token)
    queue_node         TEXT     -- node that holds the claim
) STRICT;
-- A list is merged from one range per state, so that one index serves lists with and without a state, and neither
-- skips tasks of other states.
CREATE INDEX tasks_by_owner ON tasks (owner, state, status_at, id);
CREATE INDEX tasks_by_state ON tasks (state, status_at, id, agent);
-- The first task of a conversation is found by its own id.
CREATE INDEX tasks_by_context ON tasks (context_id) WHERE context_id <> id;
CREATE INDEX tasks_finished ON tasks (is_log_purged, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX tasks_queue_ready ON tasks (queue_agent, queue_turn, queue_position) WHERE queue_is_ready = 1;
CREATE INDEX tasks_queue_flows ON tasks (queue_agent, queue_flow, queue_turn) WHERE queue_is_ready = 1;
CREATE INDEX tasks_queue_not_ready ON tasks (queue_claimable_at) WHERE queue_is_ready = 0;

-- History of a task.
CREATE TABLE messages (
    task_id  TEXT NOT NULL,
    position INTEGER NOT NULL, -- from zero
    body     TEXT NOT NULL,    -- {"value": message, "blobs": [[part, blob id], …]}
    PRIMARY KEY (task_id, position)
) STRICT, WITHOUT ROWID;

-- Results of a task.
CREATE TABLE artifacts (
    number      INTEGER PRIMARY KEY, -- order in which they were first added
    task_id     TEXT NOT NULL,
    artifact_id TEXT NOT NULL,
    body        TEXT NOT NULL,       -- as in `messages`
    UNIQUE (task_id, artifact_id)
) STRICT;

-- Subscriptions to the events of one task, delivered through the outbox.
CREATE TABLE push_subscriptions (
    number     INTEGER PRIMARY KEY,
    task_id    TEXT NOT NULL,
    id         TEXT NOT NULL,
    owner      TEXT NOT NULL,
    channel    TEXT NOT NULL, -- outbox channel
    events     TEXT NOT NULL, -- JSON array of event names; empty for all
    format     TEXT NOT NULL, -- format of the deliveries: acp, a2a-0.3, a2a-1.0, stream
    target     TEXT NOT NULL, -- JSON, interpreted by the channel
    secrets    TEXT,          -- token and credentials for the destination, encrypted
    created_at INTEGER NOT NULL,
    UNIQUE (task_id, id)
) STRICT;

CREATE TABLE streams (
    id            TEXT PRIMARY KEY,
    owner         TEXT NOT NULL,
    participants  TEXT NOT NULL, -- JSON array of principals
    state         TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    closed_at     INTEGER,
    revision      INTEGER NOT NULL,
    seq           INTEGER NOT NULL, -- sequence number of its last event
    is_log_purged INTEGER NOT NULL DEFAULT 0,
    metadata      TEXT
) STRICT;
CREATE INDEX streams_open ON streams (updated_at) WHERE closed_at IS NULL;
CREATE INDEX streams_closed ON streams (is_log_purged, closed_at) WHERE closed_at IS NOT NULL;

-- Event log of every task and stream.
CREATE TABLE events (
    number     INTEGER PRIMARY KEY,
    subject    TEXT NOT NULL,    -- t/ and the id of a task, or s/ and the id of a stream
    seq        INTEGER NOT NULL, -- from one, without gaps
    generation INTEGER,          -- number among the events that report progress of a task; null for others
    at         INTEGER NOT NULL,
    body       TEXT NOT NULL,    -- {"name of the event": {…}}
    UNIQUE (subject, seq)
) STRICT;

-- Large contents of message and artifact parts, stored once per content.
CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    id     BLOB NOT NULL UNIQUE, -- SHA-256 of the content
    bytes  TEXT NOT NULL         -- JSON; empty if it is stored in pieces
) STRICT;
-- Large blobs are written and read piece by piece, in the order of their numbers.
CREATE TABLE blob_pieces (
    number      INTEGER PRIMARY KEY,
    blob_number INTEGER NOT NULL,
    bytes       BLOB NOT NULL
) STRICT;
CREATE INDEX blob_pieces_by_blob ON blob_pieces (blob_number);
-- Subjects that need a blob. It is removed with the last of them.
CREATE TABLE blob_refs (
    subject TEXT NOT NULL,
    blob_id BLOB NOT NULL,
    PRIMARY KEY (subject, blob_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_blob ON blob_refs (blob_id);

-- Idempotency keys, with the result of the first call.
CREATE TABLE idempotency_keys (
    key        TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- Rate limits (GCRA).
CREATE TABLE quotas (
    key     TEXT PRIMARY KEY,
    full_at INTEGER NOT NULL -- time at which the whole quota is available again
) STRICT, WITHOUT ROWID;
CREATE INDEX quotas_full ON quotas (full_at);

-- Transactional outbox.
CREATE TABLE outbox (
    number     INTEGER PRIMARY KEY, -- order within a group
    id         TEXT NOT NULL UNIQUE,
    channel    TEXT NOT NULL,
    key        TEXT NOT NULL,    -- idempotency key within the channel
    group_name TEXT,             -- entries of a group are delivered one after the other
    owner      TEXT NOT NULL,
    subject    TEXT,             -- as in `events`
    created_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempt    INTEGER NOT NULL, -- number of attempts that have begun
    state      TEXT NOT NULL,    -- waiting, delivered or dead
    is_head    INTEGER NOT NULL, -- no entry of its group is before it
    is_leased  INTEGER NOT NULL DEFAULT 0, -- a worker is delivering it
    settled_at INTEGER,          -- time at which it was delivered or died
    error      TEXT,             -- of the last attempt
    payload    TEXT NOT NULL,    -- JSON
    UNIQUE (channel, key)
) STRICT;
CREATE INDEX outbox_due ON outbox (is_head, channel, due_at) WHERE settled_at IS NULL;
CREATE INDEX outbox_groups ON outbox (group_name, is_head) WHERE settled_at IS NULL AND group_name IS NOT NULL;
CREATE INDEX outbox_settled ON outbox (state, settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX outbox_leased ON outbox (is_leased) WHERE is_leased = 1;

-- Topic subscriptions.
CREATE TABLE subscriptions (
    number            INTEGER PRIMARY KEY,
    id                TEXT NOT NULL UNIQUE,
    owner             TEXT NOT NULL,
    state             TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    expires_at        INTEGER,
    ended_at          INTEGER,          -- time at which it was denied, revoked or found to be expired
    revision          INTEGER NOT NULL,
    last_delivery_seq INTEGER NOT NULL, -- sequence number of its last delivery
    patterns          TEXT NOT NULL,    -- JSON array of topic patterns
    allowed_patterns  TEXT,             -- JSON array: those that were approved
    dialect_data      TEXT              -- JSON, interpreted by the dialect that created it
) STRICT;
CREATE INDEX subscriptions_by_owner ON subscriptions (owner, created_at);
CREATE INDEX subscriptions_by_state ON subscriptions (state, created_at);
CREATE INDEX subscriptions_by_age ON subscriptions (created_at);
CREATE INDEX subscriptions_ended ON subscriptions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX subscriptions_expiry ON subscriptions (expires_at) WHERE expires_at IS NOT NULL;

-- Published signals. A signal is removed with its last delivery.
CREATE TABLE signals (
    number        INTEGER PRIMARY KEY,
    topic         TEXT NOT NULL,
    id            TEXT NOT NULL,
    publisher     TEXT NOT NULL,
    at            INTEGER NOT NULL,
    body          TEXT,    -- JSON; null if the signal is an event
    event_subject TEXT,    -- the event, as in `events`
    event_seq     INTEGER
) STRICT;

-- Unacknowledged and dead deliveries of signals.
CREATE TABLE deliveries (
    subscription_id TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    signal_number   INTEGER NOT NULL,
    signal_id       TEXT NOT NULL,
    attempt         INTEGER NOT NULL,
    due_at          INTEGER NOT NULL, -- the least integer before the first attempt
    dead_at         INTEGER,          -- time at which it was given up
    PRIMARY KEY (subscription_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (subscription_id, due_at, seq) WHERE dead_at IS NULL;
CREATE INDEX deliveries_by_signal_id ON deliveries (subscription_id, signal_id);
CREATE INDEX deliveries_by_signal ON deliveries (signal_number);
CREATE INDEX deliveries_dead ON deliveries (dead_at) WHERE dead_at IS NOT NULL;

-- Acknowledged signals, so that a repeated acknowledgement differs from that of an unknown signal.
CREATE TABLE acknowledgements (
    subscription_id TEXT NOT NULL,
    signal_id       TEXT NOT NULL,
    at              INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, signal_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX acknowledgements_by_age ON acknowledgements (at);

-- Key-value records, such as OAuth2 clients.
CREATE TABLE records (
    number     INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    revision   INTEGER NOT NULL, -- never reused
    expires_at INTEGER,
    UNIQUE (kind, key)
) STRICT;
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;

-- Request log.
CREATE TABLE requests (
    number         INTEGER PRIMARY KEY,
    answered_at    INTEGER NOT NULL,
    duration_us    INTEGER NOT NULL, -- microseconds
    request_id     TEXT,             -- JSON-RPC id; null for notifications
    method         TEXT NOT NULL,
    principal      TEXT NOT NULL,
    client         TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    task_id        TEXT,
    outcome        TEXT NOT NULL,
    code           INTEGER,          -- error code
    address        TEXT
) STRICT;
CREATE INDEX requests_by_age ON requests (answered_at);
CREATE INDEX requests_by_request_id ON requests (request_id, answered_at) WHERE request_id IS NOT NULL;
CREATE INDEX requests_by_correlation_id ON requests (correlation_id, answered_at);
CREATE INDEX requests_by_task ON requests (task_id, answered_at) WHERE task_id IS NOT NULL;

-- Tasks that were created in a thread of a workspace. Removed with the task.
CREATE TABLE thread_tasks (
    number     INTEGER PRIMARY KEY, -- order of creation
    task_id    TEXT NOT NULL UNIQUE,
    team       TEXT NOT NULL,
    channel    TEXT NOT NULL,
    thread     TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX thread_tasks_by_thread ON thread_tasks (team, channel, thread);
CREATE INDEX thread_tasks_by_user ON thread_tasks (user_id);

-- Feedback of users on tasks. Removed with the task.
CREATE TABLE feedback (
    task_id     TEXT NOT NULL,
    author      TEXT NOT NULL,
    is_positive INTEGER NOT NULL,
    comment     TEXT,
    given_at    INTEGER NOT NULL,
    PRIMARY KEY (task_id, author)
) STRICT, WITHOUT ROWID;
