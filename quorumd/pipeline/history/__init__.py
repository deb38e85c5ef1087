"""The history of a cluster as tables in Parquet (schemas.HISTORY_TABLES), written as the log grows, and questions.

build(session, source options, folder, follow) -> Summary
    A stream of the log: each micro-batch is folded onto the state before it and becomes a few files of each table,
    `TABLE/lo=<first offset>/`, then visible at once by the atomic replacement of `history.json`, which says what
    belongs to the history. Run again after any crash it goes on where it was.
open_history(folder) -> History; register_views(session, history): the tables and ready views as temporary views

How a log becomes a history
    seed            the snapshot to begin with, where the log lacks its beginning, and to go on with behind a gap
    staging_source  the stream: a Spark source whose readers do `staging` with what they read
    staging         in workers: records are put aside in Arrow files, those of partitions by bucket
    writer          on the driver: folds what is about all of the cluster, gives out jobs, publishes
    jobs            in workers: events to Parquet; the states of a bucket of partitions, folded and written
    merging         small files of many micro-batches become one
    tables          the folder: history.json, files, the lock
    lag             how far each node is

What decides, pure
    partition_rows, partition_fold      states of partitions from records, in numpy
    causes          why a partition came to be as it is, exactly
    cluster_fold    topics, brokers, epochs, voters, min.insync.replicas
    transactions    what was aborted never was
    packed          lists of ids as binaries

Questions
    history         an open history, with right times; times relative to its end
    clocks          leaders whose clocks were wrong
    questions       those that need no Spark
    views/          churn, leader_flaps, under_min_isr, reassignments: a query each
"""
