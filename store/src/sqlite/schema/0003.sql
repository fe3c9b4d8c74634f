-- Whether somebody carries an entry at this moment. Without it, one that is held and one that waits for
-- its next attempt look the same.

ALTER TABLE outbox ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
CREATE INDEX outbox_held ON outbox (held) WHERE held = 1;
