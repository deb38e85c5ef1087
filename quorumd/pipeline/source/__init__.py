"""The Spark data source `quorumd`, see quorumd.pipeline for levels and options.

    data_source     QuorumdSource: register it with spark.dataSource.register(QuorumdSource); `session` does
    options         the options, checked; which part of the logs is asked for
    filters         what pushed filters leave to be read
    tasks           pure: files pruned, split and packed into tasks
    planning        from options to tasks: folders, indexes, a live cluster
    reader          batches: tasks planned on the driver, read in workers
    stream          streams: offsets, rate limits, what was cut meanwhile; followed: how far growing folders are
    pieces          bytes of files and of nodes as batches that are wanted and faults that matter
    rows            these as Arrow batches of a level; audit_rows: those of the level audit

A reader runs more than once for the same range (retries, speculation, replays after a crash) and gives the same rows
each time. Of a log that grows meanwhile that range has to be said: by a stream, or by endingOffset; a batch read of
folders has else whatever is there when each task reads. A stream is of one log: over folders of several nodes it
follows the copy that is most up to date, as Raft compares logs; over a live cluster it ends at the high watermark,
whichever node was asked.

Spark hands filters down if `spark.sql.python.filterPushdown.enabled` is on, and no columns: name those that are
needed with `.schema("offset BIGINT, type SMALLINT")`, the others are not decoded. On a cluster the package has to be
installed where workers run (or given by --py-files before its first use), and folders have to be visible there.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """QuorumdSource, loaded when it is asked for: with it comes Spark."""
    if name == "QuorumdSource":
        from quorumd.pipeline.source.data_source import QuorumdSource

        return QuorumdSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
