"""The data pipeline: quorum logs as tables on Spark. The extra `quorumd[pipeline]` installs its dependencies.

It reads the log directories of quorumd and of stock Kafka controllers, and a live cluster as an observer. It writes
only to its own directories, and changes a cluster only through the admin client.

    tables/     every table and every level of the source: names, types and meaning of columns; rows as text
    scan/       numpy: batches of a piece of a file, their CRCs and digests, damage, and how to resume after it
    decode/     numpy: metadata and control records as Arrow columns, every type and version
    copies/     the files of a node: segments and snapshots, opened read-only
    live/       the blocking client that reads a live cluster as an observer
    source/     the Spark data source `quorumd`, batch and streaming, over files or a live cluster
    spark/      contexts, settings, Java, progress, and the class-data archive that halves the start of a session
    history/    the tables of a cluster's history in Parquet: writing and querying them
    audit/      compares all replicas and locates their differences
    plan/       partition reassignments with the fewest moves
    report/     one HTML page about all of these
    user_cache  the directory in which the pipeline caches files that take long to create

Imports between packages have no cycles. PySpark, pyarrow, numpy, pandas and Altair are imported nowhere else in
quorumd, and not at the top of modules that the command line imports before it knows the pipeline command
(`tables.schemas`, `copies.log_files`, `spark.java`). `scan`, `decode` and all decisions (folds,
comparisons, plans) need no Spark: they are functions of arrays and Arrow batches, tested without a JVM. Spark splits,
shuffles and joins the data.

The levels of the source
    records     a row per record, including control records; `raw` has the bytes of unknown types and versions
    batches     a row per batch: header and computed CRC; records are not decoded
    audit       a few rows per segment: digests of offset ranges, and faults (schemas.AUDIT)
    snapshot    a row per record of the snapshots

    spark.read.format("quorumd").option("path", "1=/srv/n1,2=/srv/n2").option("level", "records").load()

Options of the source
    path              directories as ID=DIR,...; the data directory of a node or the `__cluster_metadata-0` in it;
                      one DIR without ID is node 0
    bootstrap         host:port,... of a live cluster, instead of `path`
    level             records (default), batches, audit or snapshot
    lists             array, or packed: lists of ids as BINARY, 4 bytes little-endian per id: cheaper to shuffle
    startingOffset, endingOffset          [start, end); by default up to the end of the log
    startingTimestamp, endingTimestamp    milliseconds since 1970, of batches
    onCorrupt         fail (default), skip, or report: a row with `fault` set per damaged place. Level audit always
                      reports. The last segment of a copy may end within a batch if the node was killed or is
                      writing
    committedOnly     for a live cluster: true (default) reads only below the high watermark
    commandConfig     for a live cluster: Kafka's client properties (security.protocol, ssl.*, sasl.*), a file that
                      all workers can read
    timeoutMs         for a live cluster: fail a request after this time, retries included (default 30000)
    maxOffsetsPerTrigger                  for a stream: at most this many offsets per micro-batch
    packBytes, splitBytes                 small segments share a task up to packBytes, larger ones are split

Corrupt input is always reported as a `Fault` of `scan.batches`: a code, file, position and offset.
"""
