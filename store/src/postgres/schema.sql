-- Schema of the PostgreSQL store, version 1. A released version is not edited: a later one is a migration (schema.rs).
--
-- Times are milliseconds since 1970 (UTC), unless the column is a timestamptz. JSON is text: jsonb would sort members
-- and round numbers. Ids compare by their bytes (collation "C"), as in the other engine. Text of unlimited length is
-- indexed by its SHA-256 (`…_hash`), because an index entry has a maximum length.

-- Schema version (`schema_version`).
CREATE TABLE meta (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- One row per task.
CREATE TABLE tasks (
    id             text COLLATE "C" PRIMARY KEY,
    context_id     text COLLATE "C" NOT NULL, -- conversation
    owner          text COLLATE "C" NOT NULL, -- principal that created it
    agent          text COLLATE "C" NOT NULL,
    state          text COLLATE "C" NOT NULL,
    priority       smallint NOT NULL,         -- 0 (low) to 3 (urgent)
    metadata       text,                      -- JSON object from the caller
    status_message text,                      -- message that accompanies the state, as in `messages.body`
    created_at     bigint NOT NULL,
    status_at      bigint NOT NULL,           -- time of the last change of `state`; the order of lists
    updated_at     bigint NOT NULL,
    finished_at    bigint,
    revision       bigint NOT NULL,           -- optimistic concurrency: incremented by every change
    seq            bigint NOT NULL,           -- sequence number of its last event
    generation     bigint NOT NULL,           -- the greatest `events.generation`
    is_direct      boolean NOT NULL,          -- its last message is a complete answer to the first
    message_count  bigint NOT NULL,
    artifact_count bigint NOT NULL,
    push_count     bigint NOT NULL,           -- number of push subscriptions
    is_log_purged  boolean NOT NULL DEFAULT false -- retention has removed its events
) WITH (fillfactor = 85);
CREATE INDEX tasks_by_status_time ON tasks (status_at DESC, id DESC);
CREATE INDEX tasks_by_owner ON tasks (owner, status_at DESC, id DESC);
CREATE INDEX tasks_by_context ON tasks (context_id, status_at DESC, id DESC);
CREATE INDEX tasks_active ON tasks (status_at DESC, id DESC)
    WHERE state IN ('submitted', 'working', 'input_required', 'auth_required');
CREATE INDEX tasks_active_by_owner ON tasks (owner, status_at DESC, id DESC)
    WHERE state IN ('submitted', 'working', 'input_required', 'auth_required');
CREATE INDEX tasks_with_log ON tasks (finished_at) WHERE finished_at IS NOT NULL AND NOT is_log_purged;
CREATE INDEX tasks_without_log ON tasks (finished_at) WHERE finished_at IS NOT NULL AND is_log_purged;

-- History of a task.
CREATE TABLE messages (
    task_id  text COLLATE "C" NOT NULL,
    position bigint NOT NULL, -- from zero
    body     text NOT NULL,   -- {"value": message, "blobs": [[part, blob id], …]}
    PRIMARY KEY (task_id, position)
);

-- Results of a task.
CREATE TABLE artifacts (
    task_id     text COLLATE "C" NOT NULL,
    artifact_id text COLLATE "C" NOT NULL,
    number      bigint GENERATED ALWAYS AS IDENTITY, -- order in which they were first added
    body        text NOT NULL,                       -- as in `messages`
    PRIMARY KEY (task_id, artifact_id)
);

-- Subscriptions to the events of one task, delivered through the outbox.
CREATE TABLE push_subscriptions (
    task_id    text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    number     bigint GENERATED ALWAYS AS IDENTITY,
    owner      text COLLATE "C" NOT NULL,
    channel    text NOT NULL, -- outbox channel
    events     text NOT NULL, -- JSON array of event names; empty for all
    format     text NOT NULL, -- format of the deliveries: acp, a2a-0.3, a2a-1.0, stream
    target     text NOT NULL, -- JSON, interpreted by the channel
    secrets    text,          -- token and credentials for the destination, encrypted
    created_at bigint NOT NULL,
    PRIMARY KEY (task_id, id)
);

CREATE TABLE streams (
    id            text COLLATE "C" PRIMARY KEY,
    owner         text COLLATE "C" NOT NULL,
    participants  text NOT NULL, -- JSON array of principals
    state         text COLLATE "C" NOT NULL,
    metadata      text,
    created_at    bigint NOT NULL,
    updated_at    bigint NOT NULL,
    closed_at     bigint,
    revision      bigint NOT NULL,
    seq           bigint NOT NULL, -- sequence number of its last event
    is_log_purged boolean NOT NULL DEFAULT false
) WITH (fillfactor = 85);
CREATE INDEX streams_open ON streams (updated_at, id) WHERE state <> 'CLOSED';
CREATE INDEX streams_with_log ON streams (closed_at) WHERE closed_at IS NOT NULL AND NOT is_log_purged;
CREATE INDEX streams_without_log ON streams (closed_at) WHERE closed_at IS NOT NULL AND is_log_purged;

-- Event log of every task and stream.
CREATE TABLE events (
    subject    text COLLATE "C" NOT NULL, -- t/ and the id of a task, or s/ and the id of a stream
    seq        bigint NOT NULL,           -- from one, without gaps
    generation bigint,                    -- number among the events that report progress of a task; null for others
    at         bigint NOT NULL,
    body       text NOT NULL,             -- {"name of the event": {…}}
    PRIMARY KEY (subject, seq)
);

-- Large contents of message and artifact parts, stored once per content.
CREATE TABLE blobs (
    id    bytea PRIMARY KEY, -- SHA-256 of the content
    bytes bytea NOT NULL     -- JSON
);
-- Most of them are encoded files, which do not compress.
ALTER TABLE blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Subjects that need a blob. It is removed with the last of them; the foreign key keeps it while a transaction adds one.
CREATE TABLE blob_refs (
    subject text COLLATE "C" NOT NULL,
    blob_id bytea NOT NULL REFERENCES blobs (id),
    PRIMARY KEY (subject, blob_id)
);
CREATE INDEX blob_refs_by_blob ON blob_refs (blob_id);

-- Tasks that wait for a worker, or are held by one.
CREATE TABLE work_queue (
    task_id      text COLLATE "C" PRIMARY KEY,
    agent        text COLLATE "C" NOT NULL,
    priority     smallint NOT NULL,
    flow         text COLLATE "C" NOT NULL, -- owner and priority; the tasks of one flow run in order
    turn         bigint NOT NULL,           -- fair queueing: the least turn of an agent is claimed first
    position     bigint NOT NULL,           -- order within a turn
    claimable_at bigint NOT NULL,           -- due time or end of the lease; the least integer if due at once
    node         text,                      -- node that holds the lease
    claim        bigint,                    -- number of the claim (fencing token)
    attempt      bigint NOT NULL DEFAULT 0  -- number of claims, without those that were released
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX work_queue_by_turn ON work_queue (agent, turn, position);
CREATE INDEX work_queue_by_flow ON work_queue (agent, flow, turn);
CREATE SEQUENCE work_positions;
CREATE SEQUENCE work_claims;

-- Idempotency keys, with the id that the first call created.
CREATE TABLE idempotency_keys (
    key_hash   bytea PRIMARY KEY,
    value      text NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- Transactional outbox.
CREATE TABLE outbox (
    id           text COLLATE "C" PRIMARY KEY,
    number       bigint GENERATED ALWAYS AS IDENTITY, -- order within a group
    channel      text NOT NULL,
    channel_hash bytea NOT NULL,
    key          text NOT NULL,            -- idempotency key within the channel
    key_hash     bytea NOT NULL UNIQUE,    -- of channel and key together
    group_name   text,                     -- entries of a group are delivered one after the other
    group_hash   bytea,
    owner        text COLLATE "C" NOT NULL,
    subject      text COLLATE "C",         -- as in `events`
    payload      text NOT NULL,            -- JSON
    created_at   bigint NOT NULL,
    due_at       bigint NOT NULL,          -- due time or end of the lease
    attempt      bigint NOT NULL,          -- number of attempts that have begun
    error        text,                     -- of the last attempt
    state        text COLLATE "C" NOT NULL DEFAULT 'waiting', -- waiting, delivered or dead
    is_head      boolean NOT NULL,         -- no waiting entry of its group is before it
    settled_at   bigint                    -- time at which it was delivered or died
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX outbox_due ON outbox (channel_hash, due_at, number) WHERE state = 'waiting' AND is_head;
CREATE INDEX outbox_groups ON outbox (group_hash, number)
    WHERE state = 'waiting' AND group_hash IS NOT NULL;
CREATE INDEX outbox_delivered ON outbox (settled_at) WHERE state = 'delivered';
CREATE INDEX outbox_dead ON outbox (settled_at DESC, number DESC) WHERE state = 'dead';

-- Topic subscriptions.
CREATE TABLE subscriptions (
    id               text COLLATE "C" PRIMARY KEY,
    number           bigint GENERATED ALWAYS AS IDENTITY,
    owner            text COLLATE "C" NOT NULL,
    patterns         text NOT NULL, -- JSON array of topic patterns
    allowed_patterns text,          -- JSON array: those that were approved
    state            text COLLATE "C" NOT NULL,
    dialect_data     text,          -- JSON, interpreted by the dialect that created it
    created_at       bigint NOT NULL,
    expires_at       bigint,
    revision         bigint NOT NULL,
    updated_at       bigint NOT NULL
);
CREATE INDEX subscriptions_by_age ON subscriptions (created_at, number);
CREATE INDEX subscriptions_by_owner ON subscriptions (owner, created_at, number);
CREATE INDEX subscriptions_active ON subscriptions (created_at, number) WHERE state = 'active';
CREATE INDEX subscriptions_ended ON subscriptions (updated_at)
    WHERE state IN ('denied', 'revoked', 'expired');

-- Sequence number of each subscription's last delivery. A narrow table, because every publication writes it.
CREATE TABLE delivery_cursors (
    subscription_id text COLLATE "C" PRIMARY KEY,
    seq             bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- One row: incremented by every change of a subscription.
CREATE TABLE subscription_epoch (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    epoch       bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO subscription_epoch (epoch) VALUES (0);

-- Published signals. A signal is removed with its last delivery.
CREATE TABLE signals (
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic         text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    publisher     text COLLATE "C" NOT NULL,
    at            bigint NOT NULL,
    body          text,              -- JSON; null if the signal is an event
    event_subject text COLLATE "C",  -- the event, as in `events`
    event_seq     bigint
);

-- Deliveries of signals.
CREATE TABLE deliveries (
    subscription_id text COLLATE "C" NOT NULL,
    seq             bigint NOT NULL,
    signal_number   bigint NOT NULL,
    signal_id       text COLLATE "C" NOT NULL,
    due_at          bigint NOT NULL, -- the least integer before the first attempt
    attempt         bigint NOT NULL DEFAULT 0,
    state           text COLLATE "C" NOT NULL DEFAULT 'waiting', -- waiting, acked or dead
    settled_at      bigint,
    PRIMARY KEY (subscription_id, seq)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX deliveries_by_signal_id ON deliveries (subscription_id, signal_id);
CREATE INDEX deliveries_by_signal ON deliveries (signal_number);
CREATE INDEX deliveries_waiting ON deliveries (subscription_id, seq) WHERE state = 'waiting';
CREATE INDEX deliveries_due ON deliveries (subscription_id, due_at) WHERE state = 'waiting';
CREATE INDEX deliveries_acked ON deliveries (settled_at) WHERE state = 'acked';
CREATE INDEX deliveries_dead ON deliveries (settled_at DESC) WHERE state = 'dead';

-- Rate limits (GCRA).
CREATE TABLE quotas (
    key_hash bytea PRIMARY KEY,
    full_at  bigint NOT NULL -- time at which the whole quota is available again
) WITH (fillfactor = 50);
CREATE INDEX quotas_full ON quotas (full_at);

-- Key-value records, such as OAuth2 clients.
CREATE TABLE records (
    kind       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      text NOT NULL,
    revision   bigint NOT NULL, -- never reused
    expires_at bigint,
    PRIMARY KEY (kind, key)
);
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;
CREATE SEQUENCE record_revisions;

-- Request log.
CREATE TABLE requests (
    number         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    answered_at    bigint NOT NULL,
    duration_us    bigint NOT NULL,  -- microseconds
    request_id     text COLLATE "C", -- JSON-RPC id; null for notifications
    method         text COLLATE "C" NOT NULL,
    principal      text COLLATE "C" NOT NULL,
    client         text COLLATE "C" NOT NULL,
    correlation_id text COLLATE "C" NOT NULL,
    task_id        text COLLATE "C",
    outcome        text COLLATE "C" NOT NULL,
    code           integer,          -- error code
    address        text COLLATE "C"
);
CREATE INDEX requests_by_age ON requests (answered_at DESC, number DESC);
CREATE INDEX requests_by_request_id ON requests (request_id, answered_at DESC, number DESC)
    WHERE request_id IS NOT NULL;
CREATE INDEX requests_by_correlation_id ON requests (correlation_id);
CREATE INDEX requests_by_task ON requests (task_id) WHERE task_id IS NOT NULL;

-- Tasks that were created in a thread of a workspace. Removed with the task.
CREATE TABLE thread_tasks (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of creation
    task_id    text COLLATE "C" NOT NULL UNIQUE,
    team       text COLLATE "C" NOT NULL,
    channel    text COLLATE "C" NOT NULL,
    thread     text COLLATE "C" NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX thread_tasks_by_thread ON thread_tasks (team, channel, thread, number);
CREATE INDEX thread_tasks_by_user ON thread_tasks (user_id, number);

-- Feedback of users on tasks. Removed with the task.
CREATE TABLE feedback (
    task_id     text COLLATE "C" NOT NULL,
    author      text COLLATE "C" NOT NULL,
    is_positive boolean NOT NULL,
    comment     text,
    given_at    bigint NOT NULL,
    PRIMARY KEY (task_id, author)
);

-- Commit markers: one row for each transaction that wrote, in that transaction. A node that lost its connection finds
-- out here whether the transaction was committed. By the server's clock.
CREATE TABLE commits (
    id      text COLLATE "C" PRIMARY KEY,
    is_void boolean NOT NULL, -- inserted by a node that asked: the transaction with this id can no longer commit
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX commits_by_age ON commits (at);

-- One row, written to find out whether writing works.
CREATE TABLE health_check (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
