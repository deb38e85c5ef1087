"""The `quorumd` command: its subcommands, and how errors are printed and mapped to exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from quorumd import __version__
from quorumd.build import description
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.lazy_commands import LazyCommands
from quorumd.errors import ExitCode, QuorumdError
from quorumd.text import escaped

COMMANDS = LazyCommands(
    {
        "dev": "quorumd.cli.dev:dev",
        "format": "quorumd.cli.format.command:format_command",
        "start": "quorumd.cli.start:start",
        "cluster": "quorumd.cli.cluster:cluster",
        "status": "quorumd.cli.status:status",
        "quorum": "quorumd.cli.quorum.group:quorum",
        "topics": "quorumd.cli.topics:topics",
        "partitions": "quorumd.cli.partitions.group:partitions",
        "brokers": "quorumd.cli.brokers:brokers",
        "controllers": "quorumd.cli.controllers:controllers",
        "configs": "quorumd.cli.configs:configs",
        "features": "quorumd.cli.features:features",
        "acls": "quorumd.cli.acls:acls",
        "users": "quorumd.cli.users:users",
        "quotas": "quorumd.cli.quotas:quotas",
        "tokens": "quorumd.cli.tokens:tokens",
        "log": "quorumd.cli.log.group:log",
        "snapshot": "quorumd.cli.snapshot:snapshot",
        "recover": "quorumd.cli.recover:recover",
        "pipeline": "quorumd.cli.pipeline.group:pipeline",
        "simulate": "quorumd.cli.simulate:simulate",
        "bench": "quorumd.cli.bench:bench",
        "config": "quorumd.cli.config:config",
    }
)
EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {code.meaning}" for code in ExitCode)


@click.group(
    cls=CommandGroup,
    commands=COMMANDS,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
