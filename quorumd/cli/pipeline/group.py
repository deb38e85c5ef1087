"""`quorumd pipeline`: history, audit and plans from the metadata log, on Spark."""

from __future__ import annotations

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.pipeline.audit import audit
from quorumd.cli.pipeline.history import history
from quorumd.cli.pipeline.plan import plan
from quorumd.cli.pipeline.report import report
from quorumd.cli.pipeline.termination import ends_on_sigterm
from quorumd.cli.pipeline.warm import warm
from quorumd.errors import InputIncomplete, JobFailed, MalformedMessage, RequestFailed, UnsupportedVersion


class _PipelineGroup(CommandGroup):
    """Maps errors that would exit with code 1, which means findings here, to a failed job or incomplete input."""

    def invoke(self, ctx: click.Context) -> object:
        with ends_on_sigterm():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (RequestFailed, MalformedMessage, UnsupportedVersion) as error:
            raise InputIncomplete(str(error)) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise JobFailed(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
        except Exception as error:
            # Only code that reads tables imports Arrow, whose errors have no common base class but Exception.
            if type(error).__module__ != "pyarrow.lib":
                raise
            raise InputIncomplete(f"a table is damaged: {str(error).splitlines()[0]}") from None


@click.group(cls=_PipelineGroup)
def pipeline() -> None:
    """Analyse the metadata log: history, audit, reassignment plans and reports.

    Reads the log directories of quorumd and of stock Kafka controllers, or a live cluster as an observer. Spark runs
    on this machine unless --master names a cluster. Results go to stdout, progress to stderr, and Spark's own
    messages to a file. Needs Java 17 and `pip install 'quorumd[pipeline]'`. Exit code 1 for findings,
    7 for a failed job, 8 for incomplete input; `quorumd --help` lists all codes.

    \b
    Examples:
      quorumd pipeline audit 1=/srv/n1 2=/srv/n2 3=/srv/n3
      quorumd pipeline history build --from 1=/srv/n1 --to history
    """


_COMMANDS: tuple[click.Command, ...] = (
    history,
    audit,
    plan,
    report,
    warm,
)

for _command in _COMMANDS:
    pipeline.add_command(_command)
