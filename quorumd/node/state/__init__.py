"""The cluster image as a function of the log.

`state_machine` applies committed records in time slices (a leader applies its own at append and undoes them if it
loses leadership); `proposals` gathers records into batches and reports their commit; `metadata_writer` writes
records to image and log; `committed_image` tells when the image is committed; `snapshot_loader` and `batch_replay`
load snapshots and batches; `bootstrap_records` are the first records of a cluster.
"""
