-- Request log: one row per answered request.

CREATE TABLE pairs (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          bigint NOT NULL,
    took        bigint NOT NULL,
    id          text COLLATE "C",
    method      text COLLATE "C" NOT NULL,
    who         text COLLATE "C" NOT NULL,
    client      text COLLATE "C" NOT NULL,
    correlation text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C",
    outcome     text COLLATE "C" NOT NULL,
    code        integer,
    address     text COLLATE "C"
);
CREATE INDEX pairs_age ON pairs (at DESC, number DESC);
CREATE INDEX pairs_by_id ON pairs (id, at DESC, number DESC) WHERE id IS NOT NULL;
CREATE INDEX pairs_by_correlation ON pairs (correlation);
CREATE INDEX pairs_by_task ON pairs (task_id) WHERE task_id IS NOT NULL;
