"""Partition reassignments with the fewest moves that balance a cluster.

    making.make_plan(state, changes) -> files.Plan: schemas.PLAN_MOVES, schemas.PLAN_BROKERS, and figures

state           what a plan starts from, as arrays
loading         the state out of a history, folders of a log or a live cluster; sizes out of files
planning        all steps, one after the other: what shall change, and what comes of it
targets         pure: how many replicas each broker shall have, within what racks allow
bound           pure: the number of moves that no plan can do with less
leaving         pure: replicas that cannot stay where they are
placement       pure: who may take which replica
moves           pure: which replica goes where, many at once
shards          pure: the same for shards of topics, each for itself
spark_shards    shards worked on by Spark
repair          pure: the last few replicas, by detours
exchanges       pure: replicas passed on from broker to broker, where many have to; and proof that no plan is cheaper
spread          pure: trades where a broker got too much of a topic
leaders         pure: the order of replicas, so that preferred leaders are balanced
choices         pure: one broker out of each row, none more often than it may be
waves           pure: moves in portions that Kafka's limits and the brokers bear
tables          a plan as Arrow tables, and its figures
files           the folder of a plan: JSON as Kafka's tools take it, rollback, summary
arrays          types of the arrays, numbers that look random
"""
