"""The Spark data source `quorumd`, see quorumd.pipeline for levels and options.

    data_source  QuorumdSource: register it with spark.dataSource.register(QuorumdSource); `session` does
    options      validated options, and the requested part of the logs
    filters      the part of the logs that remains after pushed filters
    tasks        pure: files pruned, split and packed into tasks
    planning     from options to tasks: directories, indexes, a live cluster
    reader       batches: tasks planned on the driver, read in workers
    stream       streams: offsets, rate limits, detection of truncation
    followed     the end offsets of growing directories
    pieces       bytes from files and nodes as requested batches and relevant faults
    rows         Arrow batches of a level
    audit_rows   the rows of the level audit

A reader may run several times for the same range (retries, speculation, replays after a crash) and returns the same
rows each time. For a growing log, the range must be fixed by a stream or by endingOffset; otherwise each task of a
batch read sees the files as they are when it reads them. A stream reads one log: over directories of several nodes it
follows the most up-to-date copy, as Raft compares logs; over a live cluster it ends at the high watermark unless
committedOnly is false.

Spark pushes filters down if `spark.sql.python.filterPushdown.enabled` is on, but not columns: name the required ones
with `.schema("offset BIGINT, type SMALLINT")`; the others are not decoded. On a cluster, the package must be
installed on the workers (or passed with --py-files before its first use), and directories must be visible to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorumd.pipeline.source.data_source import QuorumdSource


def __getattr__(name: str) -> type[QuorumdSource]:
    """Import QuorumdSource on first use, because it imports Spark."""
    if name == "QuorumdSource":
        from quorumd.pipeline.source.data_source import QuorumdSource

        return QuorumdSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
