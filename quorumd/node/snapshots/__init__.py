"""Builds snapshots and deletes the log segments and snapshots that they replace.

`builder` derives a snapshot from the previous one and the log, in a subprocess; `manager` decides when one is due
and deletes log segments and snapshots that are no longer needed.
"""
