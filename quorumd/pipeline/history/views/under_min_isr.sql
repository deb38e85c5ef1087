-- The periods in which a partition had fewer in-sync replicas than min.insync.replicas: a row per period, which may
-- span several states.
SELECT topic, partition, topic_id,
       min(from_offset) AS from_offset,
       min(from_ts) AS from_ts,
       CASE WHEN count_if(to_offset IS NULL) = 0 THEN max(to_ts) END AS to_ts,
       (unix_millis(max(coalesce(to_ts, history_end()))) - unix_millis(min(from_ts))) / 1000 AS seconds,
       count_if(leader = -1) > 0 AS was_offline,
       min(size(isr)) AS least_in_sync
FROM (
    SELECT *, sum(IF(was_under, 0, 1)) OVER (PARTITION BY topic_id, partition ORDER BY from_offset) AS period_number
    FROM (
        SELECT *, coalesce(lag(under_min_isr) OVER (PARTITION BY topic_id, partition ORDER BY from_offset), false)
                  AS was_under
        FROM partition_states
    )
    WHERE under_min_isr
)
GROUP BY topic, partition, topic_id, period_number
