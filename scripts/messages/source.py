"""Lines of emitted Python with their indentation, and the imports and constants that they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Source:
    """Collects the body of one function."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add `head`, and indent the lines added in the block."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


class Needs:
    """Imports and constants that the functions of one module need."""

    def __init__(self) -> None:
        self.primitives: set[str] = set()
        self.struct: set[str] = set()
        self._formats: set[str] = set()

    def from_primitives(self, name: str) -> str:
        self.primitives.add(name)
        return name

    def from_struct(self, name: str) -> str:
        self.struct.add(name)
        return name

    def pack(self, codes: list[str]) -> str:
        return f"PACK_{self._constant(codes)}"

    def unpack(self, codes: list[str]) -> str:
        return f"UNPACK_{self._constant(codes)}"

    def _constant(self, codes: list[str]) -> str:
        joined = "".join(codes)
        self._formats.add(joined)
        return constant_suffix(joined)

    def formats(self) -> list[str]:
        """Return the format of every precompiled Struct, sorted."""
        return sorted(self._formats)


def constant_suffix(codes: str) -> str:
    """Return the suffix of the constants for a format, in which `t` (truth) replaces the `?` of a bool."""
    return codes.replace("?", "t")
