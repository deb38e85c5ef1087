"""The remedy for an unusable log directory, for all error messages about one."""

from __future__ import annotations

REFORMAT_REMEDY = (
    "if a majority of the other voters is intact, remove this replica's log directory and format it again: the node "
    "then fetches the log from them. Its vote is lost with the directory: the node rejoins as an observer, until "
    "`quorumd quorum remove-voter` removes the old directory id and `quorumd quorum add-voter` adds the new one"
)
"""The continuation of a sentence such as "restore the file, or, "."""
