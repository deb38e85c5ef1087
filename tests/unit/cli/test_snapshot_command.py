"""`quorumd snapshot` on the directory of a stopped node, and its errors."""

from __future__ import annotations

import json
import os
from concurrent.futures import Future
from pathlib import Path

import pytest

from quorumd.cli.root import run
from quorumd.ids import KafkaUuid
from quorumd.log import LogSettings
from quorumd.log.meta_properties import format_directory, partition_directory
from quorumd.runtime.disk import OsDisk
from tests.support.log.config_logs import ConfigLog
from tests.support.text import shows


class Node:
    """A properties file, and the directory that it configures."""

    def __init__(self, directory: Path) -> None:
        self.config = directory / "node.properties"
        self.data = directory / "data"
        self.config.write_text(
            f"node.id=7\nlisteners=CONTROLLER://127.0.0.1:1\nlog.dirs={self.data}\nquorum.voters=7\n"
        )
        self.disk = OsDisk(lambda callback: None)

    def format(self, node_id: int = 7) -> None:
        format_directory(self.disk, str(self.data), node_id=node_id, directory_id=KafkaUuid(bytes(15) + b"7"))

    def write(self, configs: int) -> int:
        log = ConfigLog(self.disk, str(self.data), LogSettings())
        log.set_configs(log.log.end_offset, configs)
        end = log.commit()
        log.log.close()
        return end

    @property
    def snapshots(self) -> list[str]:
        return sorted(
            name
            for name in os.listdir(partition_directory(str(self.data)))
            if name[:20].isdigit() and "-" in name
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_snapshot_is_built_and_printed(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.format()
    end = node.write(500)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    assert run(["snapshot", "--config", str(node.config)]) == 0
    assert os.getpriority(os.PRIO_PROCESS, 0) == priority
    name = f"{end:020d}-{1:010d}.checkpoint"
    assert node.snapshots == [name]
    out, err = capsys.readouterr()
    size = (node.data / "__cluster_metadata-0" / name).stat().st_size
    file = f"{node.data}/__cluster_metadata-0/{name}"
    assert shows(out, file, f"end offset {end}", "501 records", f"{size:,} bytes")
    assert "reading the log" in err
    assert run(["log", "dump", "--output", "json", file]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row.get("count", 0) for row in rows if row.get("isControl") is False) == 501


def test_json(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.format()
    end = node.write(5)
    for is_new in (True, False):
        assert run(["snapshot", "--config", str(node.config), "--output", "json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        assert reported == {
            "endOffset": end,
            "epoch": 1,
            "path": f"{node.data}/__cluster_metadata-0/{node.snapshots[0]}",
            "size": os.path.getsize(reported["path"]),
            "records": 6,
            "isNew": is_new,
        }


def test_no_new_records_is_not_an_error(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.format()
    node.write(5)
    assert run(["snapshot", "--config", str(node.config)]) == 0
    assert run(["snapshot", "--config", str(node.config)]) == 0
    assert "no records" in capsys.readouterr().out
    assert len(node.snapshots) == 1


def test_no_committed_records_is_an_error(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.format()
    assert run(["snapshot", "--config", str(node.config)]) == 1
    assert "no committed records known" in capsys.readouterr().err


@pytest.mark.parametrize("node_id", [None, 8])
def test_unformatted_or_foreign_directory_is_rejected(
    node: Node, node_id: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if node_id is not None:
        node.format(node_id)
    assert run(["snapshot", "--config", str(node.config)]) == 3
    err = capsys.readouterr().err
    assert ("is not formatted" if node_id is None else "belongs to node 8") in err


def test_damaged_log_is_reported(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.format()
    node.write(500)
    segment = node.data / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[2000] ^= 1
    segment.write_bytes(data)
    assert run(["snapshot", "--config", str(node.config)]) == 3
    assert "CRC" in capsys.readouterr().err
    assert node.snapshots == []


def test_damaged_snapshot_is_reported(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.format()
    node.write(50)
    run(["snapshot", "--config", str(node.config)])
    path = node.data / "__cluster_metadata-0" / node.snapshots[0]
    path.write_bytes(path.read_bytes()[:-10])
    assert run(["snapshot", "--config", str(node.config)]) == 0
    assert "warning: " in capsys.readouterr().err
    assert run(["log", "dump", "--headers-only", str(path)]) == 0


def test_interrupted_build_leaves_no_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C interrupts the main thread; the building thread notices at its next progress report."""
    node.format()
    node.write(3000)

    def interrupted(future: Future[object], timeout: float | None = None) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    assert run(["snapshot", "--config", str(node.config)]) == 130
    assert node.snapshots == []
