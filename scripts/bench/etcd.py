"""The system to compare with: a three-node etcd on loopback, loaded with gRPC Puts by h2load."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from scripts.bench.processes import BenchError, Process, free_ports, wait_until
from scripts.bench.summary import Latency, Run

KEY = b"k"
WARM_UP = "500ms"
PACKAGES = {"etcd": "etcd-server", "h2load": "nghttp2-client"}


def check_installed() -> None:
    """Check that the tools are installed. Raises BenchError with the missing ones."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        raise BenchError(f"etcd or h2load is not installed; on Debian: apt-get install {' '.join(missing)}")


def version() -> str:
    """Return the first line of `etcd --version`."""
    return subprocess.run(
        ["etcd", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


class EtcdCluster:
    """Three members with etcd's defaults (fsync on), few log messages and data below `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        ports = free_ports(6)
        self._client_urls = [f"http://127.0.0.1:{port}" for port in ports[:3]]
        peer_urls = [f"http://127.0.0.1:{port}" for port in ports[3:]]
        members = ",".join(f"n{i}={url}" for i, url in enumerate(peer_urls))
        self._directory = directory
        self.processes = [
            Process(
                [
                    "etcd", "--name", f"n{i}", "--data-dir", str(directory / f"n{i}"),
                    "--listen-client-urls", client, "--advertise-client-urls", client,
                    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                    "--initial-cluster", members, "--initial-cluster-token", "bench",
                    "--logger", "zap", "--log-level", "error",
                ],
                directory / f"etcd-{i}.log",
            )
            for i, (client, peer) in enumerate(zip(self._client_urls, peer_urls, strict=True))
        ]  # fmt: skip
        wait_until("etcd to elect a leader", self._has_leader, self.processes)

    def stop(self) -> None:
        for process in self.processes:
            process.stop()

    def run(self, value_bytes: int, in_flight: int, connections: int, seconds: float) -> Run:
        """Send Puts to the leader for `seconds`, with `in_flight` requests over `connections`.

        h2load counts HTTP responses, but a response with status 200 may contain a gRPC error. Therefore the store's
        revision, read linearizably before and after, must have grown by at least the Puts that h2load counts. The
        warm-up is as long as that of quorumd's load.
        """
        body = self._directory / "put.body"
        body.write_bytes(put_request(KEY, b"v" * value_bytes))
        log = self._directory / "h2load.log"
        log.unlink(missing_ok=True)
        leader = self._leader_url()
        before = self._revision(leader)
        command = [
            "h2load", "-D", f"{round(seconds * 1000)}ms", "--warm-up-time", WARM_UP, "-t", "1",
            "-c", str(connections), "-m", str(in_flight // connections), "-d", str(body),
            "-H", "content-type: application/grpc", "-H", "te: trailers",
            f"--log-file={log}", f"{leader}/etcdserverpb.KV/Put",
        ]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True)
        counts = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", result.stdout)
        rate = re.search(r"finished in [^,]+, ([\d.]+) req/s", result.stdout)
        if result.returncode or counts is None or rate is None:
            raise BenchError(f"h2load failed: {result.stdout}{result.stderr}")
        done, succeeded, failed, errored = (int(group) for group in counts.groups())
        advanced = self._revision(leader) - before
        if failed or errored or succeeded != done or advanced < done:
            raise BenchError(f"etcd stored {advanced} of {done} Puts that h2load counts: {result.stdout}")
        took_ms = [int(line.rsplit("\t", 1)[1]) / 1000 for line in log.read_text().splitlines()]
        return Run(float(rate[1]), Latency.of(took_ms), connections)

    def _has_leader(self) -> bool:
        try:
            return all(status["leader"] != "0" for status in self._statuses())
        except (OSError, KeyError):
            return False

    def _statuses(self) -> list[dict[str, Any]]:
        return [_post(f"{url}/v3/maintenance/status", {}) for url in self._client_urls]

    def _leader_url(self) -> str:
        for url, status in zip(self._client_urls, self._statuses(), strict=True):
            if status["leader"] == status["header"]["member_id"]:
                return url
        raise BenchError(f"etcd has no leader; its logs are in {self._directory}")

    def _revision(self, url: str) -> int:
        return int(_post(f"{url}/v3/kv/range", {"key": "aw=="})["header"]["revision"])


def put_request(key: bytes, value: bytes) -> bytes:
    """Encode one uncompressed gRPC message with its length and PutRequest{1: key, 2: value} of etcd's rpc.proto."""
    message = b"\x0a" + _varint(len(key)) + key + b"\x12" + _varint(len(value)) + value
    return b"\0" + struct.pack(">I", len(message)) + message


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request to etcd's JSON gateway; used only for status and revision, never within a measurement."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as response:
        decoded: dict[str, Any] = json.load(response)
        return decoded
