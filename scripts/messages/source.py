"""Lines of emitted Python with their indentation, and the precompiled structs that they use."""

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
        """Indent the lines added inside under `head`."""
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
        """Return every format in use, once, in a fixed order."""
        return sorted(self._formats)


def constant_suffix(codes: str) -> str:
    """Return the part of a constant's name for its format, with `t` (truth) for the bool's `?`."""
    return codes.replace("?", "t")
