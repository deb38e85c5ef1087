-- The number of leader changes of each partition, including losses of the leader.
SELECT topic, partition, topic_id,
       count(*) AS changes,
       count_if(leader = -1) AS lost,
       count_if(cause = 'unclean') AS unclean,
       min(from_ts) AS first_ts,
       max(from_ts) AS last_ts
FROM partition_states
WHERE leader <> leader_before AND cause NOT IN ('created', 'snapshot', 'deleted')
GROUP BY topic, partition, topic_id
