"""Runs the commands of the documentation in their order against three real daemons and four brokers.

What they print must be what the documentation shows.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorumd.cli.root import quorumd
from tests.support.documentation import ROOT, Step, documented_steps, python_examples
from tests.support.documented_output import compare
from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.fake_broker import brokers

BROKERS = (101, 102, 103, 104)
RACKS = "cabc"
COMPARISON = re.compile(r'\bassert_as_documented\(\s*"([^"]+)"')

NOT_RUN = {
    r"make ": "takes minutes or sets up a machine; make test and CI run the parts",
    r"\.venv/bin/python -m tests\.mutants": "takes minutes: tests/mutants/test_mutants.py applies every mutant",
    r"pip install": "needs the network",
    r"docker run": "needs Docker",
    r"systemctl": "needs systemd",
    r"quorumd cluster (up|down)": "takes fixed ports: tests/shell/test_cluster_command.py",
    r"quorumd dev": "takes a fixed port: tests/shell/test_dev_command.py",
    r"quorumd start": "runs until SIGTERM; the daemons of this test are started with it",
    r"quorumd quorum (add|remove)-voter": "needs a voter of its own: tests/interop/test_reassign_voters.py",
    r"quorumd partitions reassign .* --wait$": "needs brokers that copy data: tests/shell/test_plans_executed.py",
    r"quorumd pipeline audit": "needs Java: tests/unit/cli/pipeline/test_audit.py does without",
    r"quorumd pipeline plan": "needs a history: tests/unit/cli/pipeline/test_plan.py",
    r"quorumd pipeline history top": "needs a history: tests/unit/cli/pipeline/test_history.py",
    r"quorumd pipeline (history (build|sql)|warm)": "needs Java: tests/pipeline/test_history.py",
    r"quorumd status .* --command-config": "needs nodes with TLS and SASL: tests/shell/test_secure_quorum.py",
    r"quorumd tokens .* --command-config": "needs nodes with TLS and SASL: tests/shell/test_cluster_command.py",
}
"""Commands that are not run, with the reason."""

INSTEAD = {
    "10.0.0.1:9192": "{address}",
    "127.0.0.1:9392": "{address}",
    "H:P": "{address}",
    "--voters 0,1,2": "--voters 1,2,3",
    "[0, 1, 2]": "[1, 2, 3]",
    "--partitions 3 --replication-factor 3": "--replica-assignment 102:103:104,101:102:103,104:102:103",
    "format --config node-1.properties": "format --config {blank}",
    "node-1.properties": "{config}",
    "/var/lib/quorumd/__cluster_metadata-0/*.checkpoint": "{snapshots}",
    "--seeds 1000": "--seeds 1 --jobs 1",
    "--seeds 100 ": "--seeds 1 --jobs 1 ",
}
"""Addresses, ids, paths and sizes in the documentation -> those of this test.

New topics get the documented replicas, which are otherwise spread at random.
"""


def reason_not_to_run(step: Step) -> str | None:
    return next((reason for pattern, reason in NOT_RUN.items() if re.match(pattern, step.command)), None)


def is_written(step: Step) -> bool:
    """Whether the step shows a file, which this test writes."""
    return step.command.startswith("cat ")


def blank_node(directory: Path, number: int) -> Path:
    """A properties file whose directory is not formatted."""
    config = directory / f"blank-{number}.properties"
    data = directory / f"blank-{number}"
    config.write_text(
        f"node.id=1\nlisteners=CONTROLLER://127.0.0.1:9192\nquorum.voters=1@127.0.0.1:9192\nlog.dirs={data}\n"
    )
    return config


def replaced(text: str, cluster: Cluster, blank: Path) -> str:
    """A documented command or output with the replacements of this test."""
    node = cluster.leader()
    places = {
        "address": "{}:{}".format(*node.address),
        "blank": blank,
        "config": node.config,
        "snapshots": " ".join(map(str, node.partition_directory.glob("*.checkpoint"))),
    }
    for old, new in INSTEAD.items():
        text = text.replace(old, new.format(**places))
    return text


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_skipped_commands_are_in_the_documentation(pattern: str) -> None:
    assert any(re.match(pattern, step.command) for step in documented_steps())


@pytest.mark.parametrize("text", INSTEAD)
def test_replaced_values_are_in_the_documentation(text: str) -> None:
    assert any(text in f"{step.command}\n{step.output}" for step in documented_steps())


def test_outputs_of_skipped_commands_are_compared_by_other_tests() -> None:
    for step in documented_steps():
        if (step.output or step.has_prompt) and (reason := reason_not_to_run(step)):
            files = [ROOT / name for name in re.findall(r"tests/\S+\.py", reason)]
            compared = {command for file in files for command in COMPARISON.findall(file.read_text())}
            assert any(map(step.command.startswith, compared)), f"{step.place}: no test compares the output"


def has_high_watermark(node: Daemon) -> bool:
    """Whether the files of a node record a high watermark, which a snapshot needs."""
    checkpoint = node.data / "replication-offset-checkpoint"
    return checkpoint.exists() and int(checkpoint.read_text().split()[-1]) > 0


def test_every_documented_command_runs_and_prints_the_documented_output(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs in this process, since starting Python is slow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORUMD_BOOTSTRAP_SERVER", "{}:{}".format(*cluster.leader().address))
    steps = [step for step in documented_steps() if reason_not_to_run(step) is None]
    assert len(steps) > 20
    wait_for("the nodes to record a high watermark", lambda: all(map(has_high_watermark, cluster)))
    differences = []
    with brokers(cluster, BROKERS, RACKS):
        for number, step in enumerate(steps):
            if is_written(step):
                Path(step.command.split()[1]).write_text(step.output)
                continue
            blank = blank_node(tmp_path, number)
            words = shlex.split(replaced(step.command, cluster, blank))
            assert words[0] == "quorumd", f"{step.command!r} cannot be run: give the reason in NOT_RUN"
            done = CliRunner().invoke(quorumd, words[1:])
            assert done.exit_code == 0, f"{step.command}\n{done.output}\n{done.exception!r}"
            if step.output or step.has_prompt:
                step = step._replace(output=replaced(step.output, cluster, blank))
                differences.append(compare(step, done.stdout))
    assert not any(differences), "\n".join(filter(None, differences))


def test_documented_admin_client_describes_the_quorum(cluster: Cluster) -> None:
    (example,) = python_examples("README.md")
    address = "{}:{}".format(*cluster.leader().address)
    command = [sys.executable, "-c", example.replace("127.0.0.1:9392", address)]
    assert "current_voters" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
