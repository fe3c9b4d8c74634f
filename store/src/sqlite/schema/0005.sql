-- Slack thread and asker of a task, and feedback on its answer. Both are removed with the task. Also extends an index
-- for lists of one agent's tasks.

CREATE TABLE questions (
    number INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL UNIQUE,
    team TEXT NOT NULL,
    channel TEXT NOT NULL,
    thread TEXT NOT NULL,
    asker TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX questions_of_thread ON questions (team, channel, thread);
CREATE INDEX questions_of_asker ON questions (asker);

CREATE TABLE feedback (
    task_id TEXT NOT NULL,
    who TEXT NOT NULL,
    good INTEGER NOT NULL,
    comment TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (task_id, who)
) STRICT, WITHOUT ROWID;

-- The agent is in the index, so that a list of one agent's tasks reads no tasks of other agents.
DROP INDEX tasks_state;
CREATE INDEX tasks_state ON tasks (state, updated_at, id, agent);
