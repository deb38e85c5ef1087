"""The `quorumd` command: one module per noun, or a package if it has several, with lazy imports.

    root                              the command itself, its errors and exit codes
    start, snapshot, recover, config  one node: its process, log and properties file
    format/, log/                     its log directories and files
    status, quorum/, controllers, features
                                      the quorum and its controllers
    brokers, topics, partitions/, configs
                                      brokers and the partitions on them
    acls, users, tokens, quotas       access of clients
    bench, simulate, dev, cluster     load, simulation, clusters for development
    pipeline/                         the log on Spark

    imports                          imports of large parts of the program
    command_group, lazy_commands     groups of commands, and commands that are imported when they are used
    options, output                  shared options, tables, JSON and progress
    client_security                  --command-config
    admin_runner                     runs the admin client for a command
    local_cluster, process_identity  the processes behind `cluster up|status|down`
    local_security, private_files    the keys and passwords of `cluster up --secure`
    metrics_view                     the metrics of a node for `cluster status`

The command modules import click and light modules at the top; modules that cost start-up time (pydantic, uvloop,
rich, the protocol code) are imported in the function that uses them, so that `quorumd --help` starts fast.
"""

from __future__ import annotations

import signal
import sys

from quorumd.cli.imports import importing


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # Ctrl-C during the imports ends the process without a traceback. A shell may have SIGINT ignored instead.
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with importing():
        from quorumd.cli.root import run

    signal.signal(signal.SIGINT, handler)
    sys.exit(run(sys.argv[1:]))
