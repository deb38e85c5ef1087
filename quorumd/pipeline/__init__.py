"""The data pipeline: what quorum logs hold, as tables on Spark. The extra `quorumd[pipeline]` brings what it needs.

It reads the folders of quorumd and of stock Kafka controllers alike, and a cluster at work as an observer; it writes
nothing but its own folders, and changes a cluster through the admin client only.

    tables/     every table and every level of the source: names, types, meaning; rows as text
    scan/       numpy: batches of a piece of a file, their CRCs and digests, what is damaged, how to resume after it
    decode/     numpy: metadata and control records as Arrow columns, every type and version
    copies/     the files of a node: segments and snapshots, opened read-only
    live/       the blocking client that reads a live cluster as an observer
    source/     the Spark data source `quorumd`, batch and streaming, over files or a live cluster
    spark/      sessions, settings, Java, progress, and the class-data archive that halves the start of a session
    history/    the tables of a cluster's history in Parquet: writing and querying them
    audit/      whether all replicas agree, and where they differ
    plan/       partition reassignments with the fewest moves
    report/     one HTML page about all of these

No package imports one that imports it. PySpark, pyarrow, numpy, pandas and Altair are imported nowhere else in
quorumd, and not at the top of modules that the command line imports before it knows which pipeline command runs
(`tables.schemas`, `copies.log_files`, `spark.java`). `scan`, `decode` and everything that decides (folds,
comparisons, plans) need no Spark: they are functions of arrays and Arrow batches, tested without a JVM. Spark splits,
shuffles and joins.

The levels of the source
    records     a row for each record, control records too; a type or version that is not known has its bytes in `raw`
    batches     a row for each batch: header and computed CRC, no record decoded
    audit       a few rows for each segment: digests of offset ranges and what is wrong (schemas.AUDIT)
    snapshot    a row for each record of the snapshots

    spark.read.format("quorumd").option("path", "1=/srv/n1,2=/srv/n2").option("level", "records").load()

Options of the source
    path              folders as ID=FOLDER,...; the data folder of a node or the `__cluster_metadata-0` in it;
                      one FOLDER without ID is node 0
    bootstrap         host:port,... of a live cluster, instead of `path`
    level             records, batches, audit or snapshot; records unless said
    lists             array, or packed: lists of ids as BINARY, 4 bytes little-endian an id, which shuffles cheaper
    startingOffset, endingOffset          [start, end); end is the end of the log unless said
    startingTimestamp, endingTimestamp    milliseconds since 1970, of batches
    onCorrupt         fail (default), skip, or report: a row with `fault` set for each damaged place. Level audit
                      always reports. The last segment of a copy may end within a batch: a node that was killed,
                      or is writing, leaves it so
    committedOnly     live: true unless said; a log is read below its high watermark
    maxOffsetsPerTrigger                  of a stream: so many offsets in a micro-batch
    packBytes, splitBytes                 small segments share a task up to packBytes, larger ones are split

Corrupt input is a `Fault` of `scan.batches` wherever it is met: a code, file, position and offset.
"""
