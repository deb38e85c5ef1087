"""Text from other processes: which of it is refused as a name, and how it is shown to people.

A terminal obeys control characters, and directional ones change the order in which it shows the others.
"""

from __future__ import annotations

import re
from typing import Final

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""C0 and C1 control characters, DEL, and separators of lines and directions of Unicode."""


def is_name(text: str) -> bool:
    """Whether the text may be the name of something: without control characters."""
    return _UNSAFE.search(text) is None


def escaped(text: str) -> str:
    """The text with its control characters as in a string of Python, `\\x1b` for example."""
    return _UNSAFE.sub(lambda found: ascii(found.group())[1:-1], text)


def escaped_json(text: str) -> str:
    """JSON, in which C0 is escaped already, with the rest escaped as well."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
