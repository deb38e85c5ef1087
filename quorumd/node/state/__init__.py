"""The cluster image as a function of the log.

`state_machine` applies committed records in time slices (a leader applies its own when it proposes them and rolls
them back if it loses leadership); `proposals` gathers records into batches and reports their commit; `log_appender`
appends the batches; `metadata_writer` writes records to image and log; `committed_image` reports when the image is
committed; `image_credentials` looks up credentials and tokens in it; `snapshot_loader` and `batch_replay` load
snapshots and batches; `log_validation` rejects records that this version does not know; `bootstrap_records` reads and
writes the first records of a cluster.
"""
