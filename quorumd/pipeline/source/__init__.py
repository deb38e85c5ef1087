"""The Spark data source `quorumd`, see quorumd.pipeline for levels and options.

    QuorumdSource             register it: spark.dataSource.register(QuorumdSource); `session` does
    Reader, StreamReader      plan tasks on the driver, read in workers: `partitions()` and `read()`
    tasks                     pure: segments and ranges of offsets packed and split into tasks

A reader runs more than once for the same range (retries, speculation, replays after a crash) and gives the same rows
each time.
"""
