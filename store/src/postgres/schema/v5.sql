-- Fair queue: owners take turns. From this version on, the lowest turn is claimed first, not the highest priority.
-- Queued tasks keep their order.

-- `flow` is the owner and priority of the task as one key. The tasks of one key run in order.
ALTER TABLE work ADD COLUMN flow text COLLATE "C", ADD COLUMN turn bigint;

UPDATE work SET flow = queued.owner || ':0' || work.priority, turn = queued.turn
FROM (SELECT task_id, coalesce((SELECT owner FROM tasks WHERE id = task_id), '') AS owner,
             row_number() OVER (PARTITION BY agent ORDER BY priority DESC, place) AS turn
      FROM work) AS queued
WHERE queued.task_id = work.task_id;

ALTER TABLE work ALTER COLUMN flow SET NOT NULL, ALTER COLUMN turn SET NOT NULL;
DROP INDEX work_in_turn;
CREATE INDEX work_in_turn ON work (agent, turn, place);
CREATE INDEX work_flows ON work (agent, flow, turn);
