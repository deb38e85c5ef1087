"""The Spark data source `quorumd`, see quorumd.pipeline for levels and options.

    QuorumdSource             register it: spark.dataSource.register(QuorumdSource); `session` does
    Reader, StreamReader      plan tasks on the driver, read in workers: `partitions()` and `read()`
    tasks                     pure: segments and ranges of offsets packed and split into tasks

A reader runs more than once for the same range (retries, speculation, replays after a crash) and gives the same rows
each time.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """QuorumdSource, loaded when it is asked for: with it comes Spark."""
    if name == "QuorumdSource":
        from quorumd.pipeline.source.data_source import QuorumdSource

        return QuorumdSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
