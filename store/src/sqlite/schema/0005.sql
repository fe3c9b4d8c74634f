-- Which tasks were asked for in which thread of a workspace and by whom, and what people think of what
-- came of them. Both go with their task. And lists of one agent's tasks.

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

-- With the agent in it, a list of one agent's tasks looks at no task of another.
DROP INDEX tasks_state;
CREATE INDEX tasks_state ON tasks (state, updated_at, id, agent);
