-- Ready questions to a history. Tables: see `quorumd.pipeline.schemas`; partition_states has those that last, too.
-- A state that lasts ends, for durations, with the last record of the history: history_end().

-- How often replicas left and joined the ISR of each partition.
CREATE OR REPLACE TEMPORARY VIEW churn AS
SELECT topic, partition, topic_id,
       count_if(isr_left + isr_joined > 0) AS changes,
       sum(isr_left) AS isr_left,
       sum(isr_joined) AS isr_joined,
       min(from_ts) FILTER (WHERE isr_left + isr_joined > 0) AS first_ts,
       max(from_ts) FILTER (WHERE isr_left + isr_joined > 0) AS last_ts
FROM partition_states
GROUP BY topic, partition, topic_id
HAVING changes > 0;

-- How often another broker came to lead each partition, or none did.
CREATE OR REPLACE TEMPORARY VIEW leader_flaps AS
SELECT topic, partition, topic_id,
       count(*) AS changes,
       count_if(leader = -1) AS lost,
       count_if(cause = 'unclean') AS unclean,
       min(from_ts) AS first_ts,
       max(from_ts) AS last_ts
FROM partition_states
WHERE leader <> leader_before AND cause NOT IN ('created', 'snapshot', 'deleted')
GROUP BY topic, partition, topic_id;

-- Each spell in which a partition had fewer replicas in sync than min.insync.replicas: one row, however many states.
CREATE OR REPLACE TEMPORARY VIEW under_min_isr AS
SELECT topic, partition, topic_id,
       min(from_offset) AS from_offset,
       min(from_ts) AS from_ts,
       CASE WHEN count_if(to_offset IS NULL) = 0 THEN max(to_ts) END AS to_ts,
       (unix_millis(max(coalesce(to_ts, history_end()))) - unix_millis(min(from_ts))) / 1000 AS seconds,
       count_if(leader = -1) > 0 AS was_offline,
       min(size(isr)) AS least_in_sync
FROM (
    SELECT *, sum(IF(was_under, 0, 1)) OVER (PARTITION BY topic_id, partition ORDER BY from_offset) AS spell
    FROM (
        SELECT *, coalesce(lag(under_min_isr) OVER (PARTITION BY topic_id, partition ORDER BY from_offset), false)
                  AS was_under
        FROM partition_states
    )
    WHERE under_min_isr
)
GROUP BY topic, partition, topic_id, spell;

-- Each reassignment from its start to its end: done, cancelled (the replicas are what they were), replaced by another
-- one, deleted with its topic, or still running.
CREATE OR REPLACE TEMPORARY VIEW reassignments AS
SELECT topic, partition, topic_id,
       from_offset, from_ts, end_ts AS to_ts,
       (unix_millis(coalesce(end_ts, history_end())) - unix_millis(from_ts)) / 1000 AS seconds,
       CASE
           WHEN end_cause IS NULL THEN 'running'
           WHEN end_cause = 'deleted' THEN 'deleted'
           WHEN end_cause = 'reassign_start' THEN 'replaced'
           WHEN array_sort(end_replicas) = array_sort(old) THEN 'cancelled'
           ELSE 'done'
       END AS outcome,
       old AS replicas_before, adding, removing, end_replicas AS replicas_after
FROM (
    SELECT *,
           -- In their order. Of a reassignment that replaces another one only the set is known.
           coalesce(settled_replicas, array_except(replicas, adding)) AS old,
           lead(cause) OVER steps AS end_cause,
           lead(from_ts) OVER steps AS end_ts,
           lead(replicas) OVER steps AS end_replicas
    FROM (
        SELECT *, lag(IF(size(adding) + size(removing) = 0, replicas, NULL))
                  OVER (PARTITION BY topic_id, partition ORDER BY from_offset) AS settled_replicas
        FROM partition_states
    )
    WHERE cause IN ('reassign_start', 'reassign_done', 'deleted')
    WINDOW steps AS (PARTITION BY topic_id, partition ORDER BY from_offset)
)
WHERE cause = 'reassign_start';
