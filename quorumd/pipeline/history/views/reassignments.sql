-- Each reassignment from its start to its end, with its outcome: done, cancelled (it ended with other replicas than
-- planned, usually the original ones), replaced by another reassignment, deleted with its topic, or still running. A
-- reassignment begins and ends with records that change the replicas to be added or removed; other changes of the
-- partition do not count.
SELECT topic, partition, topic_id,
       from_offset, from_ts, end_ts AS to_ts,
       (unix_millis(coalesce(end_ts, history_end())) - unix_millis(from_ts)) / 1000 AS seconds,
       CASE
           WHEN end_cause IS NULL THEN 'running'
           WHEN end_cause = 'deleted' THEN 'deleted'
           WHEN ends_with_another THEN 'replaced'
           WHEN array_sort(end_replicas) = array_sort(array_except(replicas, removing)) THEN 'done'
           ELSE 'cancelled'
       END AS outcome,
       old AS replicas_before, adding, removing, end_replicas AS replicas_after
FROM (
    SELECT *,
           -- For a reassignment that replaces another one, only the set of the previous replicas is known, not their
           -- order.
           coalesce(current_replicas, array_except(replicas, adding)) AS old,
           lead(cause) OVER steps AS end_cause,
           lead(is_moving) OVER steps AS ends_with_another,
           lead(from_ts) OVER steps AS end_ts,
           lead(replicas) OVER steps AS end_replicas
    FROM (
        SELECT *,
               size(adding) + size(removing) > 0 AS is_moving,
               lag(adding) OVER states <=> adding AND lag(removing) OVER states <=> removing AS is_as_before,
               lag(IF(size(adding) + size(removing) = 0, replicas, NULL)) OVER states AS current_replicas
        FROM partition_states
        WINDOW states AS (PARTITION BY topic_id, partition ORDER BY from_offset)
    )
    WHERE NOT is_as_before
    WINDOW steps AS (PARTITION BY topic_id, partition ORDER BY from_offset)
)
WHERE is_moving
