"""The options shared by the commands of `quorumd pipeline history`: `--history` and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from quorumd.pipeline.history.history import History

F = TypeVar("F", bound=Callable[..., object])
DEFAULT_DIRECTORY = Path("history")


def history_option(command: F) -> F:
    """`--history DIR`, passed as `directory`."""
    return click.option(
        "--history",
        "directory",
        type=click.Path(path_type=Path),
        default=DEFAULT_DIRECTORY,
        show_default=True,
        help="Read the history in this directory (`history build`).",
    )(command)


def opened(directory: Path) -> History:
    """Open a history. Raises InputIncomplete, ConfigError."""
    from quorumd.pipeline.history.history import open_history

    return open_history(directory)


def moment(history: History, text: str | None) -> datetime | None:
    """Return the time that an option names, in this history; None if it was not given."""
    return None if text is None else history.moment(text)
