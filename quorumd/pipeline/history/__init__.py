"""The history of a cluster as tables in Parquet (schemas.HISTORY_TABLES), written as the log grows, and questions.

build(session, source options, folder, follow) -> Summary
    A stream of the records level: each micro-batch is folded onto the state before it and becomes one folder of
    each table, `TABLE/lo=<first offset>/`, then visible at once by the atomic replacement of `history.json`, which
    says what belongs to the history. Run again after any crash it goes on where it was: a micro-batch that is
    replayed writes the same folders.
open_history(session, folder) -> the tables and ready views as temporary views
folds       pure: states of partitions, brokers, topics, epochs and voters from records, in numpy
views.sql   ready questions: churn, leader_flaps, under_min_isr, reassignments
"""
