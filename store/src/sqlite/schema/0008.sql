-- What a task is made with stands in its own row from here on, if it is short: its first messages and events, which
-- most tasks have one of each. A row elsewhere, with its places in indexes, costs more than what it says. Bodies stand
-- in order, parted by a sign that is in no JSON (U+001E). Tasks that were there before have none of this, and later
-- messages and events are rows of their own.

-- How many messages there are, and their bodies.
ALTER TABLE tasks ADD COLUMN first_said INTEGER;
ALTER TABLE tasks ADD COLUMN first_messages TEXT;
-- The number of the last event, which counts from one, when they happened, and their bodies.
ALTER TABLE tasks ADD COLUMN first_seq INTEGER;
ALTER TABLE tasks ADD COLUMN first_at INTEGER;
ALTER TABLE tasks ADD COLUMN first_events TEXT;

-- A conversation that begins with a task has that task's id. Only those that name another are looked for by it.
DROP INDEX tasks_context;
CREATE INDEX tasks_context ON tasks (context_id) WHERE context_id <> id;
