"""A stock Kafka controller as one of three voters, which leads, follows and is replaced while leaders are killed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from kio.schema.incremental_alter_configs.v1 import request as alter_configs

from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import Gapless, scan
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import records
from tests.interop.stock_tools.claims import ClaimBroken, Step, expect
from tests.interop.stock_tools.kafka_controller import KafkaController
from tests.support.processes.daemons import RESPONSE_TIMEOUT_S, Cluster, Daemon, run_quorumd, wait_for
from tests.support.processes.requests import Quorum, quorum
from tests.support.processes.wire import Wire

BROKER = 4
SECONDS_A_LEAD = 60
"""The stock controller leads and is replaced at least once per this time."""
KILL_INTERVAL_S = 8.0
PAUSE_S = 2.6
"""The time for which a daemon is paused: longer than the fetch timeout of a stock controller."""
DOWN_S = 1.5
"""The time from the election of another leader to the restart of the killed leader."""
ATTEMPTS = 6
"""The maximum number of leaders to kill until the stock controller leads."""
Voter = Daemon | KafkaController


class Controllers:
    """Claims about two daemons and a stock controller that becomes the third voter."""

    def __init__(self, cluster: Cluster, stock: KafkaController, seconds: float) -> None:
        self._cluster = cluster
        self._stock = stock
        self._seconds = seconds
        self._voters: dict[int, Voter] = {**cluster.daemons, stock.node_id: stock}
        self._kills: list[tuple[int, int, float]] = []
        """The killed leader, the next leader, and the seconds until it was elected."""
        self._writer = Writer([voter.address for voter in self._voters.values()])
        self._high_watermark = -1

    def steps(self) -> list[Step]:
        return [
            ("a stock controller becomes a voter", self.join),
            ("commands work, or name an alternative, while the stock controller leads", self.run_commands),
            (
                f"leaders are killed for {self._seconds:.0f} s, and each time another voter leads",
                self.hurt,
            ),
            ("the copies of the log are identical below the high watermark", self.compare),
            ("the stock controller has led and been replaced", self.leads),
            ("all acknowledged writes are in the log", self.acknowledged),
        ]

    def join(self) -> str:
        self._stock.start()
        done = run_quorumd(
            *("quorum", "add-voter", "--bootstrap-server", self._cluster.bootstrap),
            *("--id", str(self._stock.node_id), "--directory-id", self._stock.directory_id),
            *("--endpoint", f"CONTROLLER://127.0.0.1:{self._stock.port}", "--timeout", "120"),
        )
        expect(f"exit code of quorumd quorum add-voter: {done.stderr}", done.returncode, 0)
        known = wait_for(
            "three voters", lambda: self._known_quorum() if len(self._known_voters()) == 3 else None
        )
        return f"voters {sorted(known.voters)}, led by node {known.leader} in epoch {known.epoch}"

    def run_commands(self) -> str:
        """Kill leaders until the stock controller leads, and run commands, also one that needs AlterQuorum."""
        for _ in range(ATTEMPTS):
            if wait_for("a leader", self._known_quorum).leader == self._stock.node_id:
                break
            self._kill_the_leader(pausing=True)
            self._wait_until_all_follow()
        server = ("--bootstrap-server", self._cluster.bootstrap)
        listed = run_quorumd("brokers", "list", *server)
        expect(f"exit code of quorumd brokers list: {listed.stderr}", listed.returncode, 0)
        altered = run_quorumd("quorum", "alter", *server, "--cancel")
        reason = f"node {self._stock.node_id}, is a stock Kafka controller without AlterQuorum"
        expect(f"the reason in {altered.stderr}", reason in altered.stderr, True)
        return altered.stderr.strip()

    def hurt(self) -> str:
        """Kill the leader repeatedly.

        Every other time the remaining daemon is paused as well: otherwise it would nearly always be elected, since it
        does not wait for its fetch timeout.
        """
        ends = time.monotonic() + self._seconds
        with self._writer:
            while time.monotonic() < ends:
                began = time.monotonic()
                self._kill_the_leader(pausing=len(self._kills) % 2 == 0)
                self._wait_until_all_follow()
                time.sleep(max(0.0, began + KILL_INTERVAL_S - time.monotonic()))
        self._high_watermark = self._wait_until_all_follow()
        writer = self._writer
        return (
            f"{self._times('a daemon', self._cluster.daemons)}; "
            f"{self._times('the stock controller', [self._stock.node_id])}; "
            f"{len(writer.acknowledged)} writes acknowledged, longest pause {writer.longest_pause_s:.1f} s"
        )

    def _kill_the_leader(self, *, pausing: bool) -> None:
        leader = self._voters[wait_for("a leader", self._known_quorum).leader]
        left = [daemon for daemon in self._cluster if pausing and daemon is not leader]
        began = time.monotonic()
        leader.kill()
        for daemon in left[:1] if leader is not self._stock else ():
            daemon.signal(signal.SIGSTOP)
            time.sleep(PAUSE_S)
            daemon.signal(signal.SIGCONT)
        successor = wait_for("another leader", lambda: self._led_by_others(leader)).leader
        self._kills.append((leader.node_id, successor, time.monotonic() - began))
        time.sleep(DOWN_S)
        leader.start()

    def _times(self, who: str, node_ids: Collection[int]) -> str:
        seconds = sorted(kill[2] for kill in self._kills if kill[0] in node_ids)
        if not seconds:
            return f"{who} was never killed"
        return f"{who} killed {len(seconds)} times, another led after {seconds[len(seconds) // 2]:.1f} s (median)"

    def compare(self) -> str:
        for voter in self._voters.values():
            voter.kill()
        logs = {node_id: Log(voter.partition_directory) for node_id, voter in self._voters.items()}
        prefixes = {node_id: log.below(self._high_watermark) for node_id, log in logs.items()}
        first = next(iter(prefixes.values()))
        for node_id, prefix in prefixes.items():
            if prefix != first:
                same = next((n for n, (a, b) in enumerate(zip(first, prefix, strict=False)) if a != b), -1)
                sizes = {each: len(data) for each, data in prefixes.items()}
                raise ClaimBroken(f"the log of node {node_id} differs from byte {same}; lengths are {sizes}")
        self._log = next(iter(logs.values()))
        return f"{self._high_watermark:,} records, {len(first):,} bytes, in {len(logs)} copies"

    def leads(self) -> str:
        led = self._log.leaders()
        stock = [epoch for epoch, leader in led if leader == self._stock.node_id]
        handed_back = sum(a == self._stock.node_id != b for (_, a), (_, b) in pairwise(led))
        if handed_back < max(1, self._seconds // SECONDS_A_LEAD):
            raise ClaimBroken(f"it led epochs {stock} of {led}")
        return f"it led {len(stock)} of {len(led)} epochs, {stock}, and was replaced {handed_back} times"

    def acknowledged(self) -> str:
        written = self._log.configs()
        lost = [value for value in self._writer.acknowledged if value not in written]
        expect("acknowledged writes that are not in the log", lost[:10], [])
        return f"{len(self._writer.acknowledged)} writes"

    # The quorum as the voters describe it

    def _described_by(self, voter: Voter) -> Quorum | None:
        if not voter.runs:
            return None
        try:
            with Wire(voter.address, timeout=RESPONSE_TIMEOUT_S) as wire:
                return quorum(wire)
        except OSError:
            return None

    def _known_quorum(self) -> Quorum | None:
        """Return the quorum as the leader of the newest epoch with a high watermark describes it."""
        candidates = [
            (seen.epoch, seen)
            for node_id, voter in self._voters.items()
            if (seen := self._described_by(voter)) and seen.error == 0
            if seen.leader == node_id and seen.high_watermark >= 0
        ]
        return max(candidates, key=lambda pair: pair[0])[1] if candidates else None

    def _known_voters(self) -> dict[int, int]:
        known = self._known_quorum()
        return known.voters if known is not None else {}

    def _led_by_others(self, gone: Voter) -> Quorum | None:
        known = self._known_quorum()
        return known if known is not None and known.leader != gone.node_id else None

    def _wait_until_all_follow(self) -> int:
        """Wait until every voter has reached the current high watermark, and return an offset that all have."""
        goal = wait_for("a high watermark", self._known_quorum).high_watermark

        def there() -> int | None:
            known = self._known_quorum()
            behind = known is None or len(known.voters) < 3 or min(known.voters.values()) < goal
            return None if known is None or behind else min(known.high_watermark, *known.voters.values())

        return wait_for("all voters to catch up", there)


class Writer:
    """Sets one config after the other, through each voter in turn; each value is written once."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.acknowledged: list[str] = []
        self.longest_pause_s = 0.0
        self._addresses = list(addresses)
        self._is_running = True
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_running = False
        self._thread.join()

    def _write(self) -> None:
        number, last = 0, time.monotonic()
        while self._is_running:
            number += 1
            value = f"value-{number}"
            try:
                with Wire(self._addresses[number % len(self._addresses)], timeout=RESPONSE_TIMEOUT_S) as wire:
                    is_done = set_broker_default(wire, f"quorumd.test.{number % 20}", value) == 0
            except OSError:
                is_done = False
            if is_done:
                now = time.monotonic()
                self.acknowledged.append(value)
                self.longest_pause_s, last = max(self.longest_pause_s, now - last), now
            time.sleep(0.02)


def set_broker_default(wire: Wire, name: str, value: str) -> int:
    """Set a broker default and return the error code."""
    change = alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
    resource = alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    response = wire.request(
        alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    )
    return int(response.responses[0].error_code)


class Log:
    """The batches of a log, without preallocated zeros and incomplete batches."""

    def __init__(self, directory: Path) -> None:
        self._batches: list[tuple[BatchHeader, bytes]] = []
        """The header of each batch, with the bytes of its segment."""
        for segment in sorted(directory.glob("*.log")):
            data = segment.read_bytes()
            self._batches += [(header, data) for header in scan(data, Gapless()).headers]

    def below(self, end_offset: int) -> bytes:
        return b"".join(
            data[header.position : header.position + header.size]
            for header, data in self._batches
            if header.end_offset <= end_offset
        )

    def leaders(self) -> list[tuple[int, int]]:
        """Return the epochs with their leaders."""
        return [
            (header.epoch, message.leader_id)
            for header, data in self._batches
            if header.is_control
            for record in records(data, header)
            if isinstance(
                message := decode_control(record.key or b"", record.value or b""), LeaderChangeMessage
            )
        ]

    def configs(self) -> set[str]:
        """Return all config values in the log."""
        return {
            message.value or ""
            for header, data in self._batches
            if not header.is_control
            for record in records(data, header)
            if isinstance(message := decode_record(record.value or b""), ConfigRecord)
        }
