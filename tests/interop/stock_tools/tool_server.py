"""Run Kafka's tools one after the other in one JVM, so that a run takes tenths of a second instead of seconds."""

from __future__ import annotations

import selectors
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.interop.stock_tools.claims import ClaimBroken
from tests.interop.stock_tools.tools import HERE, QUICK, StockTools

SOURCE = HERE / "ToolServer.java"
PATIENCE_S = 120.0
"""The timeout of a tool on a busy machine."""


class Done(NamedTuple):
    """The exit code and output of a tool."""

    code: int
    output: str
    errors: str

    @property
    def text(self) -> str:
        return f"{self.output}{self.errors}"


class ToolServer:
    """Starts the JVM with the first tool, and restarts it after a timeout."""

    def __init__(self, tools: StockTools) -> None:
        self._tools = tools
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, tool: str, *arguments: str | Path, stdin: str = "") -> Done:
        """Run a tool to its end. Raises ClaimBroken if it does not end in time."""
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        fields = [stdin, tool, *map(str, arguments)]
        child.stdin.write(b" ".join(b64encode(field.encode()) or b"-" for field in fields) + b"\n")
        child.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            is_done = selector.select(PATIENCE_S)
        line = child.stdout.readline() if is_done else b""
        if not line:
            self._end()
            why = "the JVM ended" if is_done else f"the tool did not end within {PATIENCE_S:.0f} s"
            raise ClaimBroken(f"{tool.rpartition('.')[2]}: {why}")
        code, output, errors = line.split()
        return Done(int(code), _decoded(output), _decoded(errors))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            command = self._tools.command(str(SOURCE), java=("-Xmx256M", *QUICK))
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def _decoded(field: bytes) -> str:
    return "" if field == b"-" else b64decode(field).decode(errors="replace")
