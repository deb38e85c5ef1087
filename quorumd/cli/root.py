"""The `quorumd` command: its subcommands, and how errors are printed and mapped to exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from quorumd import __version__
from quorumd.build import description
from quorumd.cli.acls import acls
from quorumd.cli.bench import bench
from quorumd.cli.brokers import brokers
from quorumd.cli.cluster import cluster
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.config import config
from quorumd.cli.configs import configs
from quorumd.cli.controllers import controllers
from quorumd.cli.dev import dev
from quorumd.cli.features import features
from quorumd.cli.format.command import format_command
from quorumd.cli.log.group import log
from quorumd.cli.partitions.group import partitions
from quorumd.cli.pipeline.group import pipeline
from quorumd.cli.quorum.group import quorum
from quorumd.cli.quotas import quotas
from quorumd.cli.recover import recover
from quorumd.cli.simulate import simulate
from quorumd.cli.snapshot import snapshot
from quorumd.cli.start import start
from quorumd.cli.status import status
from quorumd.cli.tokens import tokens
from quorumd.cli.topics import topics
from quorumd.cli.users import users
from quorumd.errors import ExitCode, QuorumdError
from quorumd.text import escaped

EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {code.meaning}" for code in ExitCode)


@click.group(cls=CommandGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(f"{__version__} ({description()})", message="%(prog)s %(version)s")
def quorumd() -> None:
    """Run and operate Kafka's metadata quorum, and brokers, as one small daemon.

    \b
    Examples:
      quorumd dev
      quorumd cluster up --dir run/demo
      quorumd quorum describe --bootstrap-server 127.0.0.1:9192
      quorumd cluster down --dir run/demo
    """


_COMMANDS = (
    dev,
    format_command,
    start,
    cluster,
    status,
    quorum,
    topics,
    partitions,
    brokers,
    controllers,
    configs,
    features,
    acls,
    users,
    quotas,
    tokens,
    log,
    snapshot,
    recover,
    pipeline,
    simulate,
    bench,
    config,
)

for _command in _COMMANDS:
    quorumd.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors are lines on stderr, never a traceback."""
    try:
        code = quorumd.main(list(arguments), prog_name="quorumd", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        return _usage_error(error)
    except QuorumdError as error:
        _echo_error(str(error))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _echo_error("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return ExitCode.DONE
    except OSError as error:
        _echo_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DONE


def silence_stdout() -> None:
    """Redirect stdout to /dev/null after its pipe was closed (`| head`), so that Python's exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_error(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return error.exit_code
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    _echo_error(error.format_message().rstrip(".") + hint)
    return error.exit_code


def _echo_error(text: str) -> None:
    """Print one line on stderr per problem; indented lines continue the previous one."""
    for line in map(escaped, text.split("\n")):
        click.echo(line if line.startswith(" ") else f"error: {line}", err=True)
