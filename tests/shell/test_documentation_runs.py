"""Runs the commands of README.md and docs/ in their order against three real daemons and four brokers."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorumd.cli.root import quorumd
from tests.support.documentation import python_examples
from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.fake_broker import brokers

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
COMMAND = re.compile(
    r"^ {4}(?:\$ )?((?:quorumd|make|pip|docker|systemctl|kafka-[a-z-]+) .*?)(?: +#.*)?$", re.MULTILINE
)
PLAN = re.compile(r"^ {4}\$ cat move\.json\n((?: {4}.*\n)+?) {4}\$", re.MULTILINE)
BROKERS = (101, 102, 103, 104)

NOT_RUN = {
    r"make (run|test)$": "takes minutes, and sets up a machine",
    r"pip install": "needs the network",
    r"docker run": "needs Docker",
    r"systemctl": "needs systemd",
    r"quorumd cluster (up|down)": "takes fixed ports: tests/shell/test_cluster_command.py",
    r"quorumd dev": "takes a fixed port: tests/shell/test_dev_command.py",
    r"quorumd start": "runs until SIGTERM; the daemons of this test are started with it",
    r"quorumd quorum (add|remove)-voter": "needs a voter of its own: tests/interop/test_reassign_voters.py",
    r"quorumd partitions reassign .* --wait$": "needs brokers that copy data: tests/shell/test_plans_executed.py",
    r"quorumd pipeline": "needs Java: tests/pipeline",
    r"quorumd status .* --command-config": "needs nodes with TLS and SASL: tests/shell/test_secure_quorum.py",
}
"""Commands that are not run, with the reason."""

INSTEAD = {
    "10.0.0.1:9192": "{address}",
    "127.0.0.1:9392": "{address}",
    "H:P": "{address}",
    "--voters 0,1,2": "--voters 1,2,3",
    "format --config node-1.properties": "format --config {blank}",
    "node-1.properties": "{config}",
    "/var/lib/quorumd/__cluster_metadata-0/*.checkpoint": "{snapshots}",
    "--seeds 1000": "--seeds 1 --jobs 1",
    "--seeds 100 ": "--seeds 1 --jobs 1 ",
}
"""Addresses, ids, paths and sizes in the documentation -> those of this test."""


def documented() -> list[str]:
    return [command for page in PAGES for command in COMMAND.findall(page.read_text())]


def is_run(command: str) -> bool:
    return not any(re.match(pattern, command) for pattern in NOT_RUN)


def blank_node(folder: Path, number: int) -> Path:
    """A properties file whose folder is not formatted."""
    config = folder / f"blank-{number}.properties"
    data = folder / f"blank-{number}"
    config.write_text(
        f"node.id=1\nlisteners=CONTROLLER://127.0.0.1:9192\nquorum.voters=1@127.0.0.1:9192\nlog.dirs={data}\n"
    )
    return config


def typed(command: str, cluster: Cluster, blank: Path) -> list[str]:
    """The arguments of a command with the replacements of this test."""
    node = cluster.leader()
    places = {
        "address": "{}:{}".format(*node.address),
        "blank": blank,
        "config": node.config,
        "snapshots": " ".join(map(str, node.log_folder.glob("*.checkpoint"))),
    }
    for text, other in INSTEAD.items():
        command = command.replace(text, other.format(**places))
    return shlex.split(command)


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_skipped_commands_are_in_the_documentation(pattern: str) -> None:
    assert any(re.match(pattern, command) for command in documented())


@pytest.mark.parametrize("text", INSTEAD)
def test_replaced_values_are_in_the_documentation(text: str) -> None:
    assert any(text in command for command in documented())


def has_high_watermark(node: Daemon) -> bool:
    """Whether the files of a node record a high watermark, which a snapshot needs."""
    checkpoint = node.data / "replication-offset-checkpoint"
    return checkpoint.exists() and int(checkpoint.read_text().split()[-1]) > 0


def test_every_documented_command_runs(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs in this process, since starting Python is slow."""
    (plan,) = PLAN.findall((ROOT / "docs/brokers.md").read_text())
    (tmp_path / "move.json").write_text(plan)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORUMD_BOOTSTRAP_SERVER", "{}:{}".format(*cluster.leader().address))
    commands = [command for command in documented() if is_run(command)]
    assert len(commands) > 20
    wait_for("the nodes to record a high watermark", lambda: all(map(has_high_watermark, cluster)))
    with brokers(cluster, BROKERS):
        for number, command in enumerate(commands):
            words = typed(command, cluster, blank_node(tmp_path, number))
            assert words[0] == "quorumd", f"{command!r} cannot be run: give the reason in NOT_RUN"
            done = CliRunner().invoke(quorumd, words[1:])
            assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception!r}"


def test_documented_admin_client_describes_the_quorum(cluster: Cluster) -> None:
    (example,) = python_examples("README.md")
    address = "{}:{}".format(*cluster.leader().address)
    command = [sys.executable, "-c", example.replace("127.0.0.1:9392", address)]
    assert "current_voters" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
