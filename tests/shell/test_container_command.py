"""The commands of the container image, with its configuration at other addresses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.support.processes.ports import free_port

ROOT = Path(__file__).parents[2]
FILE = str(ROOT / "config/container.properties")
IN_IMAGE = "/etc/quorumd/quorumd.properties"
TIMEOUT_S = 60.0


def image_commands() -> list[list[str]]:
    """The command that founds a cluster in a new volume, and the one that the image runs by default."""
    text = (ROOT / "Dockerfile").read_text()
    founding = re.search(r"^# +docker run --rm .* quorumd (format .*)$", text, re.MULTILINE)
    start = re.search(r"^CMD (.*)$", text, re.MULTILINE)
    assert founding is not None
    assert start is not None
    commands: list[list[str]] = [founding[1].split(), json.loads(start[1])]
    return [[FILE if word == IN_IMAGE else word for word in command] for command in commands]


def test_image_serves_producers(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    listeners = f"PLAINTEXT://{address},CONTROLLER://127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        "QUORUMD_LOG_DIRS": str(tmp_path / "data"),
        "QUORUMD_LISTENERS": listeners,
        "QUORUMD_ADVERTISED_LISTENERS": listeners,
        "QUORUMD_METRICS_LISTENER": f"127.0.0.1:{free_port()}",
    }
    founding, start = ([sys.executable, "-m", "quorumd", *command] for command in image_commands())
    subprocess.run(founding, env=environment, check=True, capture_output=True)
    log = (tmp_path / "node.log").open("wb")
    node = subprocess.Popen(start, env=environment, stdout=log, stderr=log)
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    try:
        producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 0})
        producer.produce("greetings", b"hello", on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == [None]
    finally:
        node.kill()
        node.wait()
        log.close()
