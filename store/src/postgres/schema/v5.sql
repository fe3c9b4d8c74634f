-- Owners take turns in the queue from here on: the least turn is claimed first, and no longer the highest priority. What
-- is queued keeps its order.

-- `flow` is whose the task is and its priority, as one key: the tasks of one key follow each other.
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
