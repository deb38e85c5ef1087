"""The history of a cluster as tables in Parquet (schemas.HISTORY_TABLES), written as the log grows, and queries.

build(context, source options, directory, follow) -> Summary
    Reads the log in micro-batches: each is folded onto the previous state and becomes a few files of each table,
    `TABLE/lo=<first offset>/`. The atomic replacement of `history.json`, which lists the files, makes them visible.
    After a crash, the next run resumes there.
open_history(directory) -> History; register_views(session, history): the tables and views as temporary views

From a log to a history
    build          adds micro-batches, to the end of the log or continuously
    copies         the copies to read; damaged ones are left out and reported
    seed           the snapshot to start with if the log lacks its beginning, or to continue with after a gap
    micro_batches  plans the tasks of a micro-batch, and runs them in Spark's workers
    staging        in workers: writes records to Arrow files, those of partitions by bucket
    writer         on the driver: folds cluster-wide records, starts jobs, publishes
    jobs           in workers: events to Parquet; folds and writes the states of a bucket of partitions
    merging        merges small files of many micro-batches
    tables         the directory: history.json, files, the lock
    lag            the lag of each node

Pure decisions
    partition_rows, partition_fold  states of partitions from records, in numpy
    causes                          the exact cause of each state of a partition
    cluster_fold                    topics, brokers, epochs, voters, min.insync.replicas
    transactions                    drops aborted transactions
    packed                          lists of ids as binaries

Queries
    history  an open history, with corrected times; times relative to its end
    clocks   corrects the times of leaders with wrong clocks
    queries  queries without Spark
    views/   churn, leader_flaps, under_min_isr, reassignments: a query each
"""
