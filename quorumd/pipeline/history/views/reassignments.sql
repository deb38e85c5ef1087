-- Each reassignment from its start to its end: done, cancelled (the replicas are what they were), replaced by another
-- one, deleted with its topic, or still running.
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
WHERE cause = 'reassign_start'
