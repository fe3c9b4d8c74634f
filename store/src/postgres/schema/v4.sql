-- Slack thread and asker of a task, and feedback on its answer. Both are removed with the task.

CREATE TABLE questions (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id text COLLATE "C" NOT NULL UNIQUE,
    team    text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL,
    thread  text COLLATE "C" NOT NULL,
    asker   text COLLATE "C" NOT NULL,
    at      bigint NOT NULL
);
CREATE INDEX questions_of_thread ON questions (team, channel, thread, number);
CREATE INDEX questions_of_asker ON questions (asker, number);

CREATE TABLE feedback (
    task_id text COLLATE "C" NOT NULL,
    who     text COLLATE "C" NOT NULL,
    good    boolean NOT NULL,
    comment text,
    at      bigint NOT NULL,
    PRIMARY KEY (task_id, who)
);
