"""Options that the commands of `quorumd pipeline` share, and the Spark context or session they configure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from quorumd.cli.pipeline.progress import display, tasks_on

if TYPE_CHECKING:
    from quorumd.pipeline.spark.session import Profile, SparkContext, SparkSession

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The Spark options of the command line."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    progress: bool = True

    @contextmanager
    def session(self, profile: Profile = "big") -> Iterator[SparkSession]:
        """Run the block with a session, see quorumd.pipeline.spark.session, and show progress on stderr.

        `quorumd.pipeline.spark.progress.doing(text)` sets its text. The display ends when the first result is printed
        (`print_rows`, or `progress.finish`).
        """
        from quorumd.pipeline.spark.session import session_of

        with self.context(profile) as context:
            yield session_of(context)

    @contextmanager
    def context(self, profile: Profile = "big") -> Iterator[SparkContext]:
        """Run the block with a context only, for jobs that need no session."""
        from quorumd.pipeline.spark.progress import watch
        from quorumd.pipeline.spark.session import spark_context

        with (
            display("starting Spark", self.progress) as show,
            spark_context(self.master, profile, self.conf, self.log) as context,
            watch(context, tasks_on(show)) if self.progress else nullcontext(),
        ):
            yield context


def spark(command: F) -> F:
    """`--master`, `--conf`, `--spark-log` and `--no-progress`, passed as `spark: SparkOptions`."""

    @click.option(
        "--master",
        metavar="URL",
        default="local[*]",
        show_default=True,
        help="Use this Spark master: local[N] for N cores of this machine, spark://HOST:PORT for a cluster.",
    )
    @click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        type=_setting,
        help="Set a property of Spark, such as spark.driver.memory=8g; may be repeated.",
    )
    @click.option(
        "--spark-log",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write Spark's own messages to this file.  [default: a temporary file, kept if a job fails]",
    )
    @click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
    @functools.wraps(command)
    def with_spark(
        *args: object,
        master: str,
        conf: tuple[tuple[str, str], ...],
        spark_log: Path | None,
        no_progress: bool,
        **kwargs: object,
    ) -> object:
        chosen = SparkOptions(master, dict(conf), spark_log, not no_progress)
        return command(*args, spark=chosen, **kwargs)

    return with_spark  # type: ignore[return-value]  # click options change the signature, which F stands for


def output(command: F) -> F:
    """`--output text|json|jsonl|csv`, for `pipeline_output.print_rows`."""
    return click.option(
        "--output",
        type=click.Choice(["text", "json", "jsonl", "csv"]),
        default="text",
        show_default=True,
        help="json: one array; jsonl: an object per line; csv: with a header line.",
    )(command)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise click.BadParameter(f"{text!r} is not a property of Spark, such as spark.driver.memory=8g")
    return key, value
