"""The files of a node's copy of the log, opened read-only."""
