"""One client process: several clients that write, append and read, and record a history of their operations.

    python -m tests.chaos.client --name client-1 --seed 7 --history FILE HOST:PORT...

Every key is a register or a list, and every value is written once. A client runs one operation at a time, without
retries: a write without a response, or with an error, may have taken effect or may still take effect. Except for one
key, keys are replaced every few seconds, which keeps the search of the checker short. SIGTERM ends the process once
all operations in progress have ended.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from pathlib import Path
from random import Random

from quorumd.client.connection import NodeConnection
from quorumd.errors import ErrorCode, QuorumdError, RequestFailed
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.wire import Message
from tests.chaos.history import LIST_KEY, Entry

CLIENT_METRICS = 16
SET, APPEND = 0, 2
CONFIG = "metrics"
"""A list config that accepts any text; it stores registers and lists."""
PADDING = "."
"""The character that pads register values, so that logs grow; it is not part of the value."""

CLIENTS = 3
TIMEOUT_S = 1.0
THINK_S = (0.02, 0.12)
GENERATION_S = 4.0
REGISTERS, LISTS = 3, 2
LASTING_SHARE, LIST_SHARE, READ_SHARE = 0.03, 0.35, 0.4
LONGEST_PADDING = 900

Address = tuple[str, int]


def now_ms() -> float:
    """Return milliseconds of the monotonic clock, which all processes of the machine share."""
    return time.monotonic() * 1000


class Client:
    """Writes and reads through one node until an operation fails, then through a random node."""

    def __init__(self, number: int, name: str, nodes: list[Address], random: Random) -> None:
        self._number = number
        self._name = name
        self._nodes = nodes
        self._random = random
        self._written = 0
        self._connection: NodeConnection | None = None

    async def next(self) -> Entry:
        """Run a random operation to its end or its timeout."""
        key, kind = self._draw()
        value: str | None = None
        if kind != "read":
            self._written += 1
            value = f"c{self._number}-{self._written}"
        return await self.perform(kind, key, value)

    async def perform(self, kind: str, key: str, value: str | None) -> Entry:
        """Run an operation to its end or its timeout."""
        called, outcome, returned = now_ms(), "not sent", None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self._connection is None or not self._connection.is_open:
                    self._connection = await NodeConnection.open(
                        *self._random.choice(self._nodes), self._name
                    )
                outcome = "no response"
                response = await self._connection.send(self._request(kind, key, value))
            code, seen = _read(response)
            outcome = "ok" if code == ErrorCode.NONE else ErrorCode.describe(code)
            if outcome == "ok":
                returned = now_ms()
                value = seen if kind == "read" else value
        except TimeoutError:
            pass
        except RequestFailed:
            outcome = "connection lost" if outcome == "no response" else outcome
        if outcome != "ok":
            self.close()
        return Entry(self._number, kind, key, value, called, returned, outcome)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _draw(self) -> tuple[str, str]:
        random = self._random
        is_read = random.random() < READ_SHARE
        generation = int(time.monotonic() // GENERATION_S)
        share = random.random()
        if share < LASTING_SHARE:
            return "lasting", "read" if is_read else "write"
        if share < LASTING_SHARE + LIST_SHARE:
            key = f"{LIST_KEY}{generation}.{random.randrange(LISTS)}"
            return key, "read" if is_read else "append"
        return f"register-{generation}.{random.randrange(REGISTERS)}", "read" if is_read else "write"

    def _request(self, kind: str, key: str, value: str | None) -> Message:
        if kind == "read":
            return DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, key, [CONFIG])])
        if kind == "append":
            change = AlterableConfig(CONFIG, APPEND, value)
        else:
            padding = PADDING * self._random.randrange(LONGEST_PADDING)
            change = AlterableConfig(CONFIG, SET, f"{value}{padding}")
        return IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, key, [change])])


def _read(response: Message) -> tuple[int, str | None]:
    """Return the error code and, for a read, the value."""
    if isinstance(response, IncrementalAlterConfigsResponse):
        (result,) = response.responses
        return result.error_code, None
    assert isinstance(response, DescribeConfigsResponse)
    (described,) = response.results
    found = [config.value for config in described.configs if config.name == CONFIG]
    text = found[0] if found else None
    return described.error_code, None if text is None else text.rstrip(PADDING)


async def work(name: str, nodes: list[Address], seed: int, history: Path) -> None:
    """Run all clients of this process until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the orchestrator handles Ctrl-C
    base = int(name.rsplit("-", 1)[1]) * 100
    with history.open("a", buffering=1) as file:

        async def run(number: int) -> None:
            random = Random(f"{seed}-{number}")
            client = Client(number, name, nodes, random)
            while not stop.is_set():
                try:
                    entry = await client.next()
                except QuorumdError as error:
                    raise SystemExit(f"{name} cannot continue: {error!r}") from error
                file.write(entry.line())
                await asyncio.sleep(random.uniform(*THINK_S))
            client.close()

        await asyncio.gather(*(run(base + number) for number in range(CLIENTS)))


def address(text: str) -> Address:
    """Parse HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Run as the module docstring describes."""
    parser = argparse.ArgumentParser(prog="tests.chaos.client")
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("nodes", type=address, nargs="+")
    given = parser.parse_args()
    asyncio.run(work(given.name, given.nodes, given.seed, given.history))


if __name__ == "__main__":
    main()
