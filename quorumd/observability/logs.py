"""Log format: one line per event, as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from quorumd.text import escaped, escaped_json


def configure_logging(level: str, line_format: str, stream: TextIO | None = None) -> None:
    """Send all log records to `stream`, by default standard error. `line_format` is "text" or "json"."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if line_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def timestamp(seconds: float) -> str:
    """Format Unix time as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO    quorumd.node: text`; a traceback follows on indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        # Escaped, so that text from a peer can neither start a new log line nor control a terminal.
        text = escaped(record.getMessage())
        line = f"{timestamp(record.created)} {record.levelname:<7} {record.name}: {text}"
        if record.exc_info:
            lines = self.formatException(record.exc_info).split("\n")
            line += "".join(f"\n    {escaped(each)}" for each in lines)
        return line


class JsonLines(logging.Formatter):
    """One object per line: time, level, logger, message, and a traceback or thread stacks if present."""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        if hasattr(record, "stacks"):
            event["stacks"] = record.stacks
        return escaped_json(json.dumps(event, ensure_ascii=False))
