-- The number of ISR changes of each partition, and of replicas that left and joined.
SELECT topic, partition, topic_id,
       count_if(isr_left + isr_joined > 0) AS changes,
       sum(isr_left) AS isr_left,
       sum(isr_joined) AS isr_joined,
       min(from_ts) FILTER (WHERE isr_left + isr_joined > 0) AS first_ts,
       max(from_ts) FILTER (WHERE isr_left + isr_joined > 0) AS last_ts
FROM partition_states
GROUP BY topic, partition, topic_id
HAVING changes > 0
