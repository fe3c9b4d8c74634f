-- A task's place in the queue stands in its own row from here on: most tasks are queued when they are made, and the
-- row is written then anyway. A table beside it cost a row and a key more for each. A task with long metadata is written
-- once more for it, when it is claimed. Without a place all of these are null. A place whose task is gone led nowhere,
-- and is dropped.

ALTER TABLE tasks ADD COLUMN work_agent TEXT;
ALTER TABLE tasks ADD COLUMN work_priority INTEGER;
ALTER TABLE tasks ADD COLUMN work_position INTEGER;
-- Whether `work_wake_at` has been seen to pass, so that claiming steps over nothing that cannot be had.
ALTER TABLE tasks ADD COLUMN work_ready INTEGER;
-- When the task may be claimed: when it is due, or when its lease is over.
ALTER TABLE tasks ADD COLUMN work_wake_at INTEGER;
ALTER TABLE tasks ADD COLUMN work_attempt INTEGER;
ALTER TABLE tasks ADD COLUMN work_claim INTEGER;
ALTER TABLE tasks ADD COLUMN work_node TEXT;

UPDATE tasks SET work_agent = work.agent, work_priority = work.priority, work_position = work.position,
    work_ready = work.ready, work_wake_at = work.wake_at, work_attempt = work.attempt, work_claim = work.claim,
    work_node = work.node
    FROM work WHERE work.task_id = tasks.id;
DROP TABLE work;

CREATE INDEX work_ready ON tasks (work_agent, work_priority DESC, work_position) WHERE work_ready = 1;
CREATE INDEX work_asleep ON tasks (work_wake_at) WHERE work_ready = 0;
