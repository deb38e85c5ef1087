"""Imports without garbage collection."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from quorumd.cli.imports import importing
from quorumd.errors import ExitCode

MOST_COLLECTIONS = 40
"""Those of the interpreter and of the work; the imports alone would cause more than 100."""
COUNT_COLLECTIONS = (
    "import atexit, gc, sys; from quorumd.cli import main; "
    "atexit.register(lambda: print(sum(each['collections'] for each in gc.get_stats()))); main()"
)


def fail_to_import(enabled: list[bool]) -> None:
    with importing():
        enabled.append(gc.isenabled())
        import_module("quorumd.missing")


def test_garbage_collection_is_suspended_only_for_the_imports() -> None:
    frozen = gc.get_freeze_count()
    enabled: list[bool] = []
    try:
        with pytest.raises(ModuleNotFoundError):
            fail_to_import(enabled)
        assert enabled == [False]
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_start_collects_no_garbage_while_it_imports(tmp_path: Path) -> None:
    config = tmp_path / "node.properties"
    config.write_text("node.id=-1\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        commands = {
            ("start", "--config", str(config)): ExitCode.USAGE,
            ("dev", "--port", str(server.getsockname()[1])): ExitCode.ADDRESS_UNAVAILABLE,
        }
        for arguments, code in commands.items():
            command = [sys.executable, "-c", COUNT_COLLECTIONS, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stderr
            assert int(done.stdout.split()[-1]) < MOST_COLLECTIONS, arguments
