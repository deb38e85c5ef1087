"""Log lines: one event is one line, as text or JSON."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from quorumd.observability.logs import configure_logging, timestamp


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_lines_are_formatted(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("INFO", "text", stream)
    logging.getLogger("quorumd.node").info("leader of epoch %d", 3)
    logging.getLogger("quorumd.node").debug("not asked for")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("Z INFO    quorumd.node: leader of epoch 3")


def test_event_is_one_line_whatever_its_text(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("INFO", "text", stream)
    logging.getLogger("a").warning("client %s", "x\nforged line\r")
    assert stream.getvalue().count("\n") == 1
    assert "x\\nforged line\\r" in stream.getvalue()


HOSTILE = "\x1b[2J\x9b31m\x07\u202e\u2028"


@pytest.mark.parametrize("line_format", ["text", "json"])
def test_no_event_controls_a_terminal(root_logger: logging.Logger, line_format: str) -> None:
    stream = io.StringIO()
    configure_logging("INFO", line_format, stream)
    try:
        raise ValueError(f"a\nb{HOSTILE}")
    except ValueError:
        logging.getLogger("a").exception("client %s", HOSTILE)
    assert all(each == "\n" or each.isprintable() for each in stream.getvalue())
    if line_format == "json":
        assert json.loads(stream.getvalue())["message"] == f"client {HOSTILE}"


def test_json_lines_are_formatted(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("WARNING", "json", stream)
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("a").exception("went wrong: %s", "é")
    event = json.loads(stream.getvalue())
    assert (event["level"], event["logger"], event["message"]) == ("ERROR", "a", "went wrong: é")
    assert event["traceback"].endswith("ValueError: a\nb")
    assert stream.getvalue().count("\n") == 1


def test_traceback_is_indented_in_text(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("INFO", "text", stream)
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("a").exception("went wrong")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("went wrong")
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_timestamps_are_utc_with_milliseconds() -> None:
    assert timestamp(1_795_219_837.9746) == "2026-11-21T00:10:37.974Z"
