-- From this version on, the queue entry of a task is in its row, which saves a row and a key per task: most tasks are
-- queued when they are created, and the row is written then anyway. The cost is that a task with long metadata is
-- written again when it is claimed. The columns are null for a task that is not queued. Queue entries without a task
-- are dropped.

ALTER TABLE tasks ADD COLUMN work_agent TEXT;
ALTER TABLE tasks ADD COLUMN work_priority INTEGER;
ALTER TABLE tasks ADD COLUMN work_position INTEGER;
-- 1 when `work_wake_at` has passed, so that claiming does not scan tasks that cannot be claimed.
ALTER TABLE tasks ADD COLUMN work_ready INTEGER;
-- When the task can be claimed: when it is due or its lease expires.
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
