"""Files that commands write at paths chosen by their user."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import quorumd
from quorumd.errors import QuorumdError
from quorumd.output_files import _is_stream, replacing, write_output
from quorumd.pipeline.history.tables import Manifest, only_writer, write_manifest, write_rows
from quorumd.pipeline.spark.session import _log_for_appending

PACKAGE = Path(quorumd.__file__).parent


def locked(path: Path) -> None:
    with only_writer(path.parent):
        pass


def logged(path: Path) -> None:
    with _log_for_appending(path) as sink:
        os.write(sink, b"log")


WRITERS: dict[str, Callable[[Path], object]] = {
    "report.json": lambda path: write_output(path, "text"),
    "history.json": lambda path: write_manifest(path.parent, Manifest()),
    "rows.parquet": lambda path: write_rows(path.parent, path.name, "events", [], None),
    ".lock": locked,
    "spark.log": logged,
}


@pytest.mark.parametrize("name", WRITERS)
def test_planted_symlink_is_not_followed(tmp_path: Path, name: str) -> None:
    """In a directory that others may write to it leads to a file of this user."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    directory = tmp_path / "shared"
    directory.mkdir()
    planted = directory / name
    planted.symlink_to(precious)
    try:
        WRITERS[name](planted)
    except (OSError, QuorumdError):
        assert planted.is_symlink()
    else:
        assert not planted.is_symlink()
    assert precious.read_text() == "mine"
    assert list(directory.iterdir()) == [planted]


def test_new_file_replaces_the_old_one_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.write("not bytes")  # type: ignore[arg-type]  # the error under test
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]
    write_output(path, "new")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["new"]


def test_umask_limits_the_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_output(tmp_path / "default", "")
        with replacing(tmp_path / "private", 0o600):
            pass
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"default": 0o640, "private": 0o600}


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "through it")
    assert os.read(reader, 100) == b"through it"
    os.close(reader)
    assert pipe.is_fifo()
    reader, writer = os.pipe()
    write_output(Path(f"/dev/fd/{writer}"), "through a descriptor")
    assert os.read(reader, 100) == b"through a descriptor"
    os.close(reader)
    os.close(writer)
    write_output(Path(os.devnull), "nothing")
    assert Path(os.devnull).is_char_device()


def test_shared_memory_is_a_directory_like_others() -> None:
    assert not _is_stream(Path("/dev/shm/quorumd-page.html"))
    assert not _is_stream(Path("/dev/../tmp/quorumd-page.html"))
    assert _is_stream(Path("/dev/stdout"))


ALLOWED = {
    ("pipeline/spark/session.py", "write_text"),  # in a temporary directory of this process
    ("cli/partitions/reassign.py", "open"),  # "x" follows no symlink
}


def test_commands_write_files_with_the_functions_of_this_module() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for directory in ("cli", "pipeline")
        for path in (PACKAGE / directory).rglob("*.py")
        for name in writing_calls(ast.parse(path.read_text()))
    }
    assert found == ALLOWED


def writing_calls(module: ast.Module) -> Iterator[str]:
    """The names of calls that would follow a symlink."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            texts = {each.value for each in node.args if isinstance(each, ast.Constant)}
            if name in ("write_text", "write_bytes") or (
                name == "open" and texts & {"w", "wb", "a", "ab", "x", "w+", "r+", "r+b"}
            ):
                yield name
