from __future__ import annotations

import faulthandler
import json
import logging
from io import StringIO
from threading import Event

from quorumd.observability.logs import JsonLines
from quorumd.runtime.stacks import StackLog


class Lines(logging.Handler):
    """Keeps log lines, as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = StringIO()
        self.came = Event()
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.stream.write(self.format(record) + "\n")
        self.came.set()


def test_stacks_of_all_threads_are_one_event_of_a_json_log() -> None:
    lines, logger = Lines(), logging.getLogger("quorumd.daemon")
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        faulthandler.dump_traceback(StackLog().descriptor, all_threads=True)
        assert lines.came.wait(10)
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
    (line,) = lines.stream.getvalue().splitlines()
    event = json.loads(line)
    assert event["message"] == "stacks of all threads"
    assert "test_stacks.py" in event["stacks"]
