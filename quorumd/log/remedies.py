"""What to do with a data folder that cannot be used, in the words of every error that says so."""

from __future__ import annotations

REFORMAT_REMEDY = (
    "if a majority of the other voters is intact, remove this replica's data folder and format it anew: the log is "
    "fetched from them then. The vote is gone with the folder: the node rejoins as an observer, until "
    "`quorumd quorum remove-voter` removes the old directory id and `quorumd quorum add-voter` adds the new one"
)
"""Follows `restore ..., or, `."""
