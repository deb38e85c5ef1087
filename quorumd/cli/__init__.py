"""The `quorumd` command: one module per noun, or a package if it has several, with lazy imports.

    root            the command itself, its errors and exit codes
    options, output shared options, tables, JSON and progress
    local_cluster   the processes behind `cluster up|status|down`
    admin_runner    runs the admin client for a command
    metrics_view    the metrics of a node for `cluster status`
    format, quorum, partitions, log, pipeline
                    the packages

The command modules import click and light modules at the top; modules that cost start-up time (pydantic, uvloop,
rich, the protocol code) are imported in the function that uses them, so that `quorumd --help` starts fast.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # Ctrl-C during the imports ends the process without a traceback. A shell may have SIGINT ignored instead.
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from quorumd.cli.root import run

    signal.signal(signal.SIGINT, handler)
    sys.exit(run(sys.argv[1:]))
