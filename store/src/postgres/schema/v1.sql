-- Schema version 1. Do not change the statements: databases with this schema exist. Add a new file instead.
--
-- Timestamps are milliseconds since 1970. JSON of callers is stored verbatim as text, because jsonb sorts members and
-- changes numbers. Ids are compared by their bytes (collation "C"), as on SQLite. Values of unlimited length are
-- indexed by their SHA-256, because index entries have a maximum size.

CREATE TABLE tasks (
    id          text COLLATE "C" PRIMARY KEY,
    context_id  text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    agent       text COLLATE "C" NOT NULL,
    state       text COLLATE "C" NOT NULL,
    priority    smallint NOT NULL,
    metadata    text,
    status      text,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    finished_at bigint,
    revision    bigint NOT NULL,
    seq         bigint NOT NULL,
    messages    bigint NOT NULL,
    artifacts   bigint NOT NULL,
    pushes      bigint NOT NULL,
    -- True if retention has removed the events.
    log_gone    boolean NOT NULL DEFAULT false
) WITH (fillfactor = 85);
CREATE INDEX tasks_newest ON tasks (updated_at DESC, id DESC);
CREATE INDEX tasks_of_owner ON tasks (owner, updated_at DESC, id DESC);
CREATE INDEX tasks_of_context ON tasks (context_id, updated_at DESC, id DESC);
CREATE INDEX tasks_active ON tasks (updated_at DESC, id DESC)
    WHERE state IN ('submitted', 'working', 'input_required', 'auth_required');
CREATE INDEX tasks_active_of_owner ON tasks (owner, updated_at DESC, id DESC)
    WHERE state IN ('submitted', 'working', 'input_required', 'auth_required');
CREATE INDEX tasks_with_log ON tasks (finished_at) WHERE finished_at IS NOT NULL AND NOT log_gone;
CREATE INDEX tasks_without_log ON tasks (finished_at) WHERE finished_at IS NOT NULL AND log_gone;

CREATE TABLE messages (
    task_id text COLLATE "C" NOT NULL,
    place   bigint NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (task_id, place)
);

CREATE TABLE artifacts (
    task_id     text COLLATE "C" NOT NULL,
    artifact_id text COLLATE "C" NOT NULL,
    place       bigint GENERATED ALWAYS AS IDENTITY,
    body        text NOT NULL,
    PRIMARY KEY (task_id, artifact_id)
);

CREATE TABLE streams (
    id           text COLLATE "C" PRIMARY KEY,
    owner        text COLLATE "C" NOT NULL,
    participants text NOT NULL,
    state        text COLLATE "C" NOT NULL,
    metadata     text,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    closed_at    bigint,
    revision     bigint NOT NULL,
    seq          bigint NOT NULL,
    log_gone     boolean NOT NULL DEFAULT false
) WITH (fillfactor = 85);
CREATE INDEX streams_open ON streams (updated_at, id) WHERE state <> 'CLOSED';
CREATE INDEX streams_with_log ON streams (closed_at) WHERE closed_at IS NOT NULL AND NOT log_gone;
CREATE INDEX streams_without_log ON streams (closed_at) WHERE closed_at IS NOT NULL AND log_gone;

-- Event log. The subject is `t/` (task) or `s/` (stream) and the id.
CREATE TABLE events (
    subject text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    at      bigint NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (subject, seq)
);

CREATE TABLE blobs (
    id   bytea PRIMARY KEY,
    body bytea NOT NULL
);
-- Most blobs are encoded files, which do not compress well.
ALTER TABLE blobs ALTER COLUMN body SET STORAGE EXTERNAL;

-- References to blobs. The foreign key also prevents the removal of a blob to which a concurrent transaction adds a
-- reference.
CREATE TABLE blob_refs (
    subject text COLLATE "C" NOT NULL,
    blob_id bytea NOT NULL REFERENCES blobs (id),
    PRIMARY KEY (subject, blob_id)
);
CREATE INDEX blob_refs_of_blob ON blob_refs (blob_id);

CREATE TABLE work (
    task_id  text COLLATE "C" PRIMARY KEY,
    agent    text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    place    bigint NOT NULL,
    -- When the task can be claimed: when it is due or its lease expires.
    free_at  bigint NOT NULL,
    -- Node that holds the lease, and the claim number (fencing token).
    node     text,
    claim    bigint,
    attempt  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX work_in_turn ON work (agent, priority DESC, place);
CREATE SEQUENCE work_places;
CREATE SEQUENCE work_claims;

CREATE TABLE claims (
    key_hash   bytea PRIMARY KEY,
    value      text NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX claims_expiry ON claims (expires_at);

CREATE TABLE outbox (
    id           text COLLATE "C" PRIMARY KEY,
    place        bigint GENERATED ALWAYS AS IDENTITY,
    channel      text NOT NULL,
    channel_hash bytea NOT NULL,
    key          text NOT NULL,
    -- Hash of the channel and the key.
    key_hash     bytea NOT NULL UNIQUE,
    group_name   text,
    group_hash   bytea,
    owner        text COLLATE "C" NOT NULL,
    subject      text COLLATE "C",
    payload      text NOT NULL,
    created_at   bigint NOT NULL,
    due_at       bigint NOT NULL,
    attempt      bigint NOT NULL,
    error        text,
    state        text COLLATE "C" NOT NULL DEFAULT 'waiting',
    -- True if the entry can be delivered: it has no group, or is the first waiting entry of its group.
    first        boolean NOT NULL,
    settled_at   bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX outbox_due ON outbox (channel_hash, due_at, place) WHERE state = 'waiting' AND first;
CREATE INDEX outbox_groups ON outbox (group_hash, place)
    WHERE state = 'waiting' AND group_hash IS NOT NULL;
CREATE INDEX outbox_delivered ON outbox (settled_at) WHERE state = 'delivered';
CREATE INDEX outbox_dead ON outbox (settled_at DESC, place DESC) WHERE state = 'dead';

CREATE TABLE pushes (
    task_id    text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    place      bigint GENERATED ALWAYS AS IDENTITY,
    owner      text COLLATE "C" NOT NULL,
    channel    text NOT NULL,
    events     text NOT NULL,
    target     text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (task_id, id)
);

CREATE TABLE subscriptions (
    id         text COLLATE "C" PRIMARY KEY,
    place      bigint GENERATED ALWAYS AS IDENTITY,
    owner      text COLLATE "C" NOT NULL,
    patterns   text NOT NULL,
    allowed    text,
    state      text COLLATE "C" NOT NULL,
    about      text,
    created_at bigint NOT NULL,
    expires_at bigint,
    revision   bigint NOT NULL,
    -- Time of the last write, for retention.
    changed_at bigint NOT NULL
);
CREATE INDEX subscriptions_oldest ON subscriptions (created_at, place);
CREATE INDEX subscriptions_of_owner ON subscriptions (owner, created_at, place);
CREATE INDEX subscriptions_active ON subscriptions (created_at, place) WHERE state = 'active';
CREATE INDEX subscriptions_ended ON subscriptions (changed_at)
    WHERE state IN ('denied', 'revoked', 'expired');

-- Sequence number of each subscription's last delivery. A narrow table, because every publication writes it.
CREATE TABLE cursors (
    subscription_id text COLLATE "C" PRIMARY KEY,
    seq             bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

CREATE TABLE epoch (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO epoch (number) VALUES (0);

CREATE TABLE signals (
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic         text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    publisher     text COLLATE "C" NOT NULL,
    at            bigint NOT NULL,
    -- Either the body, or a reference to an event.
    body          text,
    event_subject text COLLATE "C",
    event_seq     bigint
);

CREATE TABLE deliveries (
    subscription_id text COLLATE "C" NOT NULL,
    seq             bigint NOT NULL,
    signal          bigint NOT NULL,
    signal_id       text COLLATE "C" NOT NULL,
    due_at          bigint NOT NULL,
    attempt         bigint NOT NULL DEFAULT 0,
    state           text COLLATE "C" NOT NULL DEFAULT 'waiting',
    settled_at      bigint,
    PRIMARY KEY (subscription_id, seq)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX deliveries_of_id ON deliveries (subscription_id, signal_id);
CREATE INDEX deliveries_of_signal ON deliveries (signal);
CREATE INDEX deliveries_waiting ON deliveries (subscription_id, seq) WHERE state = 'waiting';
CREATE INDEX deliveries_due ON deliveries (subscription_id, due_at) WHERE state = 'waiting';
CREATE INDEX deliveries_acked ON deliveries (settled_at) WHERE state = 'acked';
CREATE INDEX deliveries_dead ON deliveries (settled_at DESC) WHERE state = 'dead';

CREATE TABLE quotas (
    key_hash bytea PRIMARY KEY,
    full_at  bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX quotas_full ON quotas (full_at);

-- Commit markers: each writing transaction inserts one. A node that lost its connection during a commit finds out here
-- whether it was committed. Times are of the server's clock.
CREATE TABLE commits (
    id   text COLLATE "C" PRIMARY KEY,
    -- True if inserted by the node that asked, so that the transaction can no longer commit.
    void boolean NOT NULL,
    at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX commits_age ON commits (at);

-- Written by the readiness check.
CREATE TABLE checks (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
