"""Records of the stock console producer, and that each is read once by the stock console consumer."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile

from tests.interop.stock_tools.claims import ClaimBroken, expect, shortened
from tests.interop.stock_tools.tools import CONSUMER, OFFSETS, PRODUCER, QUICK, TIMEOUT_S, StockTools

DIGITS = 200
"""Of a record: it is a number, written so long."""
LINES, EVERY_S = 50, 0.05
"""So many records are produced at a time, and then so often."""
PATIENT = ("--message-send-max-retries", "1000000", "--request-timeout-ms", "30000")
DELIVERY = "delivery.timeout.ms=300000"
"""The console producer gives up after three attempts otherwise, within a second."""
CONSUMER_TIMEOUT_MS = "120000"


class Traffic:
    """What was produced to a topic so far: the numbers from 0."""

    def __init__(self, tools: StockTools, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self._tools = tools
        self._to = ("--bootstrap-server", bootstrap, "--topic", topic)
        self._produced = 0
        self._groups = 0

    @contextmanager
    def producing(self, records: int = 0) -> Iterator[None]:
        """The producer is given `records`, or some for as long as the block runs. Raises ClaimBroken."""
        patience = (*PATIENT, *self._tools.client_property(PRODUCER, DELIVERY))
        command = self._tools.command(PRODUCER, *self._to, *patience, java=QUICK)
        with TemporaryFile("w+") as output:
            producer = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True
            )
            over = threading.Event()
            feeder = threading.Thread(target=self._feed, args=(producer, records, over), daemon=True)
            feeder.start()
            try:
                yield
            finally:
                over.set()
                feeder.join()
                # Closes what it reads from: the producer sends all that it has, and ends.
                producer.communicate(timeout=TIMEOUT_S)
            output.seek(0)
            said = output.read()
        errors = [line for line in said.splitlines() if "ERROR" in line]
        if producer.returncode or errors:
            reason = shortened(errors[0] if errors else said)
            raise ClaimBroken(
                f"the producer ended with {producer.returncode}, {len(errors)} errors: {reason}"
            )

    def check(self, protocol: str = "classic") -> str:
        """A new group of that protocol reads everything: each number is there once. Raises ClaimBroken."""
        self._groups += 1
        said = self._tools.ask(
            *(CONSUMER, *self._to, "--from-beginning", "--group", f"group-{self._groups}"),
            *self._tools.client_property(CONSUMER, f"group.protocol={protocol}"),
            *("--max-messages", str(self._produced), "--timeout-ms", CONSUMER_TIMEOUT_MS),
        )
        found = {int(line) for line in said.stdout.split()}
        expect(f"different records consumed: {shortened(said.stderr)}", len(found), self._produced)
        ends = self._tools.run(OFFSETS, *self._to)
        expect("records", sum(int(line.rpartition(":")[2]) for line in ends.split()), self._produced)
        return f"{self._produced:,} records, each once"

    def _feed(self, producer: subprocess.Popen[str], records: int, over: threading.Event) -> None:
        assert producer.stdin is not None
        end = self._produced + records
        while self._produced < end or not (records or over.is_set()):
            numbers = range(self._produced, self._produced + LINES)
            # One that has ended says so by its exit code.
            with suppress(BrokenPipeError):
                producer.stdin.write("".join(f"{number:0{DIGITS}}\n" for number in numbers))
                producer.stdin.flush()
            self._produced = numbers.stop
            if not records:
                over.wait(EVERY_S)
