"""Records that the stock console producer writes, and that the stock console consumer must read once."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from tests.interop.stock_tools.claims import ClaimBroken, expect, shortened
from tests.interop.stock_tools.tools import CONSUMER, OFFSETS, PRODUCER, QUICK, TIMEOUT_S, StockTools

DIGITS = 200
"""The number of digits of a record, which is a number."""
LINES, EVERY_S = 50, 0.05
"""The number of records per write, and the interval of writes."""
PATIENT = ("--message-send-max-retries", "1000000", "--request-timeout-ms", "30000")
DELIVERY = "delivery.timeout.ms=300000"
"""A longer timeout: by default the console producer fails after three attempts, within a second."""
CONSUMER_TIMEOUT_MS = "120000"


class Traffic:
    """Writes and reads the records of a topic, which are the numbers from 0."""

    def __init__(self, tools: StockTools, bootstrap: str, topic: str, config: Path | None = None) -> None:
        """`config` has properties of the clients; it requires tools of Kafka 4.2 or later."""
        self.topic = topic
        self._tools = tools
        self._to: tuple[str, ...] = ("--bootstrap-server", bootstrap, "--topic", topic)
        if config is not None:
            self._to += ("--command-config", str(config))
        self._produced = 0
        self._groups = 0

    @contextmanager
    def producing(self, records: int = 0) -> Iterator[None]:
        """Produce `records`, or produce records until the block ends if it is 0. Raises ClaimBroken."""
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
                # At the end of its input the producer sends the remaining records and exits.
                producer.communicate(timeout=TIMEOUT_S)
            output.seek(0)
            text = output.read()
        errors = [line for line in text.splitlines() if "ERROR" in line]
        if producer.returncode or errors:
            reason = shortened(errors[0] if errors else text)
            raise ClaimBroken(
                f"the producer ended with {producer.returncode}, {len(errors)} errors: {reason}"
            )

    def check(self, protocol: str = "classic") -> str:
        """Read all records with a new group of a protocol; each number must occur once. Raises ClaimBroken."""
        self._groups += 1
        consumed = self._tools.execute(
            *(CONSUMER, *self._to, "--from-beginning", "--group", f"group-{self._groups}"),
            *self._tools.client_property(CONSUMER, f"group.protocol={protocol}"),
            *("--max-messages", str(self._produced), "--timeout-ms", CONSUMER_TIMEOUT_MS),
        )
        found = {int(line) for line in consumed.stdout.split()}
        expect(f"different records consumed: {shortened(consumed.stderr)}", len(found), self._produced)
        ends = self._tools.run(OFFSETS, *self._to)
        expect("records", sum(int(line.rpartition(":")[2]) for line in ends.split()), self._produced)
        return f"{self._produced:,} records, each once"

    def _feed(self, producer: subprocess.Popen[str], records: int, over: threading.Event) -> None:
        assert producer.stdin is not None
        end = self._produced + records
        while self._produced < end or not (records or over.is_set()):
            numbers = range(self._produced, self._produced + LINES)
            # If the producer has ended, its exit code is reported.
            with suppress(BrokenPipeError):
                producer.stdin.write("".join(f"{number:0{DIGITS}}\n" for number in numbers))
                producer.stdin.flush()
            self._produced = numbers.stop
            if not records:
                over.wait(EVERY_S)
