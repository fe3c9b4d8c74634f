-- 1 while an outbox entry is leased, to distinguish it from one that waits for its next attempt.

ALTER TABLE outbox ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
CREATE INDEX outbox_held ON outbox (held) WHERE held = 1;
