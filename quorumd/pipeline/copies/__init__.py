"""The files of a node: which make up its copy of the log, read without changing them."""
