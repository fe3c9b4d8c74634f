-- Fair queue: owners take turns. From this version on, the lowest turn is claimed first, not the highest priority.
-- Queued tasks keep their order.

-- Owner and priority of the task as one key. The tasks of one key run in order.
ALTER TABLE tasks ADD COLUMN work_flow TEXT;
ALTER TABLE tasks ADD COLUMN work_turn INTEGER;

UPDATE tasks SET work_flow = owner || ':0' || work_priority, work_turn = queued.turn
    FROM (SELECT row, row_number() OVER (PARTITION BY work_agent ORDER BY work_priority DESC, work_position) AS turn
          FROM tasks WHERE work_ready IS NOT NULL) AS queued
    WHERE queued.row = tasks.row;

DROP INDEX work_ready;
CREATE INDEX work_ready ON tasks (work_agent, work_turn, work_position) WHERE work_ready = 1;
CREATE INDEX work_flows ON tasks (work_agent, work_flow, work_turn) WHERE work_ready = 1;
