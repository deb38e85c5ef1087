"""`quorumd pipeline`: history, audit and plans from the metadata log, on Spark."""

from __future__ import annotations

from typing import Any

import click

from quorumd.cli.pipeline_audit import audit
from quorumd.cli.pipeline_history import history
from quorumd.cli.pipeline_plan import plan
from quorumd.cli.pipeline_report import report
from quorumd.cli.pipeline_warm import warm
from quorumd.errors import InputIncomplete, JobFailed, RequestFailed

EXIT_CODES = """\b
Exit codes:
  0    done
  1    done, and there are findings
  2    the command line cannot be used
  3    a job failed, or Spark cannot run here: Java or a package is missing
  4    the input is incomplete: not there, damaged, or not answering
  130  interrupted
"""


class _OwnExitCodes(click.Group):
    """Gives errors that would exit with 1, which stands for findings here, the class of what they mean here."""

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


@click.group(cls=_OwnExitCodes, epilog=EXIT_CODES)
def pipeline() -> None:
    """History, audit and plans from the metadata log, on Spark.

    Reads the folders of quorumd and of stock Kafka controllers, or a cluster at work as an observer. Runs on this
    machine unless --master names a Spark cluster. Results go to stdout, progress to stderr, and what Spark itself
    has to say to a file. Needs Java 17 and `pip install 'quorumd[pipeline]'`.

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
