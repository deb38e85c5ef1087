"""The `quorumd` command: its sub-commands, and what an error looks like and exits with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from quorumd import __version__
from quorumd.build import description
from quorumd.cli.bench import bench
from quorumd.cli.brokers import brokers
from quorumd.cli.cluster import cluster
from quorumd.cli.config import config
from quorumd.cli.configs import configs
from quorumd.cli.format import format_command
from quorumd.cli.local_cluster import AddressTaken
from quorumd.cli.log import log
from quorumd.cli.partitions import partitions
from quorumd.cli.pipeline import pipeline
from quorumd.cli.quorum import quorum
from quorumd.cli.simulate import simulate
from quorumd.cli.snapshot import snapshot
from quorumd.cli.start import start
from quorumd.cli.topics import topics
from quorumd.errors import (
    ConfigError,
    FlushFailed,
    InputIncomplete,
    JobFailed,
    QuorumdError,
    StorageError,
)

EXIT_CODES = """\b
Exit codes:
  0    done; a daemon: stopped as asked
  1    it did not work: no answer, an error for an answer, a damaged file, a failed simulation
  2    the command line or the configuration cannot be used
  3    the data folder cannot be used: not formatted, another node's, corrupt, locked
  4    a flush to disk failed; the daemon stopped at once
  5    an address is taken
  6    the daemon found a promise of the protocol broken; its files are kept as they are
  130  interrupted
Those of `quorumd pipeline` differ, see its --help.
"""


class _InDeclaredOrder(click.Group):
    """A group that lists its commands as they are added: the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InDeclaredOrder, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(f"{__version__} ({description()})", message="%(prog)s %(version)s")
def quorumd() -> None:
    """Kafka's metadata quorum as one small daemon.

    \b
    Examples:
      quorumd cluster up --dir run/demo
      quorumd quorum describe --bootstrap-server 127.0.0.1:9192
      quorumd cluster down --dir run/demo
    """


_COMMANDS = (
    *(format_command, start, cluster, quorum),
    *(topics, partitions, brokers, configs),
    *(log, snapshot, pipeline, simulate, bench, config),
)

for _command in _COMMANDS:
    quorumd.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. An error is one line on stderr, never a traceback."""
    try:
        code = quorumd.main(list(arguments), prog_name="quorumd", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        return _usage_error(error)
    except QuorumdError as error:
        _say(str(error))
        return exit_code_of(error)
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return 130
    except BrokenPipeError:
        silence_stdout()
        return 0
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 1
    return code if isinstance(code, int) else 0


def exit_code_of(error: QuorumdError) -> int:
    """The exit code that stands for an error, see EXIT_CODES."""
    if isinstance(error, ConfigError):
        return 2
    if isinstance(error, FlushFailed):
        return 4
    if isinstance(error, StorageError):
        return 3
    if isinstance(error, AddressTaken):
        return 5
    if isinstance(error, JobFailed):
        return 3
    if isinstance(error, InputIncomplete):
        return 4
    return 1


def silence_stdout() -> None:
    """The reader of a pipe (`| head`) has seen enough; Python must not complain about that at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_error(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return error.exit_code
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    _say(error.format_message().rstrip(".") + hint)
    return error.exit_code


def _say(text: str) -> None:
    """One line on stderr for each problem; lines that go on about one are indented."""
    for line in text.splitlines():
        click.echo(line if line.startswith(" ") else f"error: {line}", err=True)
