"""`quorumd pipeline`: history, audit and plans from the metadata log, on Spark."""

from __future__ import annotations

from typing import Any

import click

from quorumd.cli.pipeline.audit import audit
from quorumd.cli.pipeline.history import history
from quorumd.cli.pipeline.plan import plan
from quorumd.cli.pipeline.report import report
from quorumd.cli.pipeline.warm import warm
from quorumd.errors import InputIncomplete, JobFailed, RequestFailed


class _JobsAndInput(click.Group):
    """Tells apart what a script has to: errors that would exit with 1, which stands for findings here, are a failed
    job or incomplete input."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RequestFailed as error:
            raise InputIncomplete(str(error)) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise JobFailed(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
        except Exception as error:
            # Arrow is imported by what reads tables only, and its errors have no base but Exception.
            if type(error).__module__ != "pyarrow.lib":
                raise
            raise InputIncomplete(f"a table is damaged: {str(error).splitlines()[0]}") from None


@click.group(cls=_JobsAndInput)
def pipeline() -> None:
    """History, audit and plans from the metadata log, on Spark.

    Reads the folders of quorumd and of stock Kafka controllers, or a cluster at work as an observer. Runs on this
    machine unless --master names a Spark cluster. Results go to stdout, progress to stderr, and what Spark itself
    has to say to a file. Needs Java 17 and `pip install 'quorumd[pipeline]'`. The exit codes are those of
    `quorumd --help`: 1 for findings, 7 for a job that failed, 8 for incomplete input.

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
