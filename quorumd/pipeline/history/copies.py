"""Chooses the copies that a history is built from: damaged copies are left out and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from quorumd.errors import InputIncomplete
from quorumd.pipeline.copies.log_files import parse_directories
from quorumd.pipeline.source.followed import FollowedDirectories, most_up_to_date
from quorumd.pipeline.source.options import Interval, Selection
from quorumd.pipeline.source.pieces import Wanted, code_and_place, read_piece
from quorumd.pipeline.source.tasks import File, Piece, may_hold

Report = Callable[[str], None]


def describe_input(source: Mapping[str, str]) -> str:
    """Describe the source for progress; of several directories the most up-to-date copy is read."""
    directories = parse_directories(source["path"]) if "path" in source else {}
    node = FollowedDirectories(directories).look().node if len(directories) > 1 else None
    return "reading the log" if node is None else f"reading the copy of node {node}"


def without_damaged(source: Mapping[str, str], known: int, report: Report) -> dict[str, str] | None:
    """Return the source without the copies that are damaged at or after offset `known`; None if none is damaged.

    Raises InputIncomplete if all of several copies are damaged.
    """
    if "path" not in source:
        return None
    directories = parse_directories(source["path"])
    followed = FollowedDirectories(directories)
    reached = {each.node: each for each in followed.look_at_each()}
    found = {
        node: first_damage(followed.copies[node].files, Interval(known, each.offset))
        for node, each in reached.items()
    }
    damaged = {node: text for node, text in found.items() if text is not None}
    whole = {node: path for node, path in directories.items() if node not in damaged}
    if not damaged or len(reached) == 1:
        return None
    if not whole:
        raise InputIncomplete(
            f"all copies are damaged after offset {known}, where the history ends: {'; '.join(damaged.values())}; "
            "add the directory of another copy"
        )
    next_best = most_up_to_date(reached[node] for node in whole)
    for node, text in damaged.items():
        report(
            f"the copy of node {node} is damaged; the copy of node {next_best.node} is read instead, up to offset "
            f"{next_best.offset}: {text}"
        )
    return dict(source) | {"path": ",".join(f"{node}={path}" for node, path in whole.items())}


def first_damage(files: Iterable[File], offsets: Interval) -> str | None:
    """Return the first fault within `offsets` in the files of a copy, with its place; None if there is none.

    Raises InputIncomplete if a file cannot be read.
    """
    requested = Selection(offsets=offsets)
    for file in files:
        if may_hold(file, requested, None):
            for read in read_piece(Piece(file, 0, file.size), Wanted(requested)):
                if read.faults:
                    return code_and_place(read.origin, read.faults[0])
    return None
