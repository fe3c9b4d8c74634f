-- From this version on, the first messages and events of a new task are inlined into its row if they are short. Most
-- tasks have one of each, and a separate row with its index entries costs more than the content. Bodies are in order,
-- separated by U+001E, which does not occur in JSON. Existing tasks have no inlined rows, and later messages and events
-- are separate rows.

-- Number of inlined messages, and their bodies.
ALTER TABLE tasks ADD COLUMN first_said INTEGER;
ALTER TABLE tasks ADD COLUMN first_messages TEXT;
-- Number of the last inlined event (the first is 1), the time of the events, and their bodies.
ALTER TABLE tasks ADD COLUMN first_seq INTEGER;
ALTER TABLE tasks ADD COLUMN first_at INTEGER;
ALTER TABLE tasks ADD COLUMN first_events TEXT;

-- A task that starts a conversation has its own id as context_id, so only other values need the index.
DROP INDEX tasks_context;
CREATE INDEX tasks_context ON tasks (context_id) WHERE context_id <> id;
