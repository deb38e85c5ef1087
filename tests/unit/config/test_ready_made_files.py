"""Every ready-made file in config/ works unchanged: properties, service, scrape targets, dashboard, image."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from quorumd.cli.local_cluster import HOST, LocalCluster
from quorumd.config import load
from quorumd.observability.metrics import METRICS
from scripts import run_demo

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
PROPERTIES = sorted(path for path in CONFIG.rglob("*.properties") if path.name != "client.properties")


@pytest.mark.parametrize("path", PROPERTIES, ids=lambda path: str(path.relative_to(CONFIG)))
def test_properties_load_without_warning(path: Path) -> None:
    settings = load(str(path))
    assert settings.warnings() == ()
    assert settings.metrics_listener is not None


@pytest.mark.parametrize("directory", ["three-nodes", "three-nodes-secure"])
def test_three_nodes_share_only_voters(directory: str) -> None:
    nodes = [load(str(path)) for path in sorted((CONFIG / directory).glob("[123].properties"))]
    assert [node.node_id for node in nodes] == [1, 2, 3]
    assert len({node.quorum_voters for node in nodes}) == 1
    assert len({node.data_directory for node in nodes}) == 3
    assert (
        len({port for node in nodes for port in (node.listener.port, (node.metrics_listener or ("", 0))[1])})
        == 6
    )
    for node in nodes:
        own = next(voter for voter in node.quorum_voters if voter.id == node.node_id)
        assert (own.host, own.port) == (node.listener.host, node.listener.port)


def scrape_targets() -> list[str]:
    return re.findall(r"^ +- (\S+:\d+)$", (CONFIG / "prometheus.yml").read_text(), re.MULTILINE)


def test_prometheus_scrapes_the_three_nodes() -> None:
    nodes = [load(str(path)) for path in sorted((CONFIG / "three-nodes").iterdir())]
    assert scrape_targets() == ["{}:{}".format(*(node.metrics_listener or ())) for node in nodes]


def test_prometheus_scrapes_nodes_of_make_run_and_cluster_up(tmp_path: Path) -> None:
    demo = LocalCluster.open_or_plan(tmp_path, run_demo.NODES, run_demo.BASE_PORTS[0])
    for cluster in (demo, LocalCluster.open_or_plan(tmp_path)):
        assert scrape_targets() == [f"{HOST}:{node.metrics_port}" for node in cluster.nodes]


def test_dashboard_uses_most_existing_metrics_only() -> None:
    dashboard = json.loads((CONFIG / "grafana-dashboard.json").read_text())
    request = set()
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            request |= set(re.findall(r"\b((?:quorumd|process)_\w+)", target["expr"]))
    series = set()
    for metric in METRICS:
        series.add(f"{metric.name}_bucket" if metric.kind == "histogram" else metric.exposed_name)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    process = {sample.name for family in registry.collect() for sample in family.samples}
    assert request <= series | process
    not_shown = {"quorumd_build_info", "quorumd_raft_boot_timestamp_seconds"}
    reported_by_others = {
        "quorumd_raft_current_vote",
        "quorumd_raft_current_vote_directory_info",
        "quorumd_raft_log_end_epoch",
        "quorumd_controller_active",
        "quorumd_broker_registration_state",
        "quorumd_metadata_applied_timestamp_seconds",
        "quorumd_metadata_version",
    }
    assert series - request == not_shown | reported_by_others


@pytest.mark.parametrize("file", ["config/quorumd.service", "Dockerfile"])
def test_service_and_image_use_existing_options(file: str) -> None:
    from quorumd.cli.start import start

    text = (ROOT / file).read_text()
    options = set(re.findall(r"(?<=[\s\"])--(?:config|format-if-needed)\b", text))
    assert options == {"--config", "--format-if-needed"}
    assert options <= {option for parameter in start.params for option in parameter.opts}


def test_commands_of_the_image_found_a_cluster_before_its_start() -> None:
    founding, start = re.findall(r"^# +docker run (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert "quorumd format --config /etc/quorumd/quorumd.properties --standalone" in founding
    assert "format" not in start
    assert load(str(CONFIG / "container.properties")).quorum_voters[0].id == 1


def test_image_files_exist_and_are_not_ignored() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert source in kept


def test_service_does_not_restart_after_permanent_failures() -> None:
    service = (CONFIG / "quorumd.service").read_text()
    assert "RestartPreventExitStatus=2 3 6\n" in service
    assert "Type=notify\n" in service


@pytest.mark.parametrize("directive", ["LimitNOFILE", "StateDirectory", "NoNewPrivileges", "ProtectSystem"])
def test_service_is_sandboxed(directive: str) -> None:
    assert f"\n{directive}=" in (CONFIG / "quorumd.service").read_text()


@pytest.mark.parametrize("name", ["quorumd.service", "quorumd-audit.service"])
def test_systemd_accepts_service(name: str, tmp_path: Path) -> None:
    text = (CONFIG / name).read_text()
    assert all(re.fullmatch(r"|#.*|\[[A-Z]\w+\]|[A-Z]\w+=.*", line) for line in text.splitlines())
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return  # the rest requires systemd
    daemon = tmp_path / "quorumd"
    daemon.write_text("#!/bin/sh\n")
    daemon.chmod(0o755)
    unit = tmp_path / name
    unit.write_text(text.replace("/opt/quorumd/bin/quorumd", str(daemon)))
    verified = [unit]
    timer = (CONFIG / name).with_suffix(".timer")
    if timer.exists():
        verified.append(Path(shutil.copy(timer, tmp_path)))
    verdict = subprocess.run(
        [analyze, "verify", *map(str, verified)], capture_output=True, text=True, timeout=300
    )
    assert "quorumd" not in verdict.stderr
    assert verdict.returncode == 0
