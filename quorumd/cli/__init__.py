"""The `quorumd` command: one file a noun, nothing imported before it is needed.

    root            the command itself, its errors and exit codes
    options, output what the commands share: options, tables, JSON, progress
    local_cluster   the processes behind `cluster up|status|down`
    log_files       what `log dump` sees in a file
    reassignment_plan, reassignment_progress
                    the file that `partitions reassign` reads, and how far its partitions are

The modules of commands import click and light modules at their top; what costs start-up time (pydantic,
uvloop, rich, the wire code) is imported inside the function that uses it, so that `quorumd --help` answers
at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    from quorumd.cli.root import run

    sys.exit(run(sys.argv[1:]))
