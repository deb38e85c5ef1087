"""A live cluster, read as an observer."""
