"""The data pipeline: what quorum logs hold, as tables on Spark. The extra `quorumd[pipeline]` brings what it needs.

It reads the folders of quorumd and of stock Kafka controllers alike, and a cluster at work as an observer; it writes
nothing but its own folders, and changes a cluster through the admin client only.

    schemas         every table and every level of the source once: names, types, meaning
    log_files       which files make up the copies of a log: segments and snapshots of each node
    scan            numpy: batches of a piece of a file, their CRCs, what is wrong where, how to go on behind it
    batch_chain     numpy: where batches begin, by the lengths of those before
    batch_search    numpy: where batches begin, by how they look: after damage
    batch_crcs      numpy: the CRCs of many small batches in a few calls
    decode/         numpy: metadata and control records as Arrow columns, every type and version
    source/         the Spark data source `quorumd`, batch and streaming, over files or a live cluster
    observer        the blocking client that reads a live cluster as an observer
    read_only_disk  the files of a node for those who only look
    session         a Spark session as it should be: quiet, on loopback, quick to start
    java            finding a Java that Spark runs on, and saying what is missing
    progress        how far Spark's jobs are, on stderr
    warm            the class-data archive that makes sessions start in half the time
    history/        the tables of a cluster's history in Parquet: writing them, questions to them
    audit/          whether all replicas agree, and where they do not
    plan/           partition reassignments with the fewest moves
    report/         one HTML page of all that

PySpark, pyarrow, numpy and pandas are imported nowhere else, and here only inside functions of modules that the
command line imports before it knows that a pipeline command runs (`schemas`, `log_files`, `java`). `scan`, `decode`
and everything that decides (folds, comparisons, plans) need no Spark: they are functions of arrays and Arrow batches,
tested without a JVM. Spark splits, shuffles and joins.

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

Corrupt input is a `Fault` of `scan` wherever it is met: a code, file, position and offset.
"""
