"""The Dockerfile: its base, its user, and the health check, which follows the configured port."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from quorumd.config import load
from quorumd.runtime.http_endpoint import HttpEndpoint, ProbeResult
from tests.support.processes.ports import free_port

ROOT = Path(__file__).parents[3]
CONTAINER_PROPERTIES = ROOT / "config/container.properties"
PROPERTIES_IN_IMAGE = "/etc/quorumd/quorumd.properties"
PATIENCE_S = 300.0

Stage = list[tuple[str, str]]
"""Instructions with their arguments."""


def stages() -> list[Stage]:
    """The instructions of each build stage; those before the first are a stage too."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    parsed: list[Stage] = [[]]
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, arguments = line.partition(" ")
        if instruction == "FROM":
            parsed.append([])
        parsed[-1].append((instruction, arguments.strip()))
    return parsed


def only(stage: Stage, instruction: str) -> str:
    (arguments,) = (arguments for each, arguments in stage if each == instruction)
    return arguments


def health_command() -> list[str]:
    _, _, command = only(stages()[-1], "HEALTHCHECK").partition("CMD ")
    parsed: list[str] = json.loads(command)
    return parsed


def test_every_stage_begins_from_a_base_with_a_digest() -> None:
    first, *following = stages()
    name, _, base = only(first, "ARG").partition("=")
    assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", base)
    assert len(following) == 2
    assert {only(stage, "FROM").split(" AS ")[0] for stage in following} == {f"${{{name}}}"}


def test_node_runs_as_a_user_without_privileges_who_owns_the_data() -> None:
    final = stages()[-1]
    instructions = [instruction for instruction, _ in final]
    user = only(final, "USER")
    created = only(final, "RUN")
    useradd, install = (shlex.split(command) for command in created.split("&&"))
    assert (useradd[0], useradd[-1]) == ("useradd", user)
    assert int(useradd[useradd.index("--uid") + 1]) > 0
    assert install[:8] == ["install", "-d", "-o", user, "-g", user, "-m", "0700"]
    assert install[8:] == [only(final, "VOLUME")]
    assert load(str(CONTAINER_PROPERTIES)).data_directory.startswith(f"{only(final, 'VOLUME')}/")
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    assert instructions.count("RUN") == 1


def test_exposed_ports_are_those_of_the_configuration() -> None:
    settings = load(str(CONTAINER_PROPERTIES))
    assert settings.metrics_listener is not None
    ports = [*(each.port for each in settings.listeners), settings.metrics_listener[1]]
    assert only(stages()[-1], "EXPOSE").split() == [str(port) for port in ports]


def test_start_and_health_check_read_the_same_file() -> None:
    final = stages()[-1]
    copied = [arguments.split() for instruction, arguments in final if instruction == "COPY"]
    assert ["config/container.properties", PROPERTIES_IN_IMAGE] in copied
    start: list[str] = json.loads(only(final, "CMD"))
    assert start[start.index("--config") + 1] == PROPERTIES_IN_IMAGE
    assert health_command()[-1] == PROPERTIES_IN_IMAGE


@pytest.mark.parametrize("is_healthy", [True, False])
@pytest.mark.parametrize("place", ["file", "environment"])
def test_health_command_requests_the_configured_port(tmp_path: Path, place: str, is_healthy: bool) -> None:
    """The command of the image, with its file of properties replaced."""
    endpoint = HttpEndpoint(("127.0.0.1", 0))
    endpoint.start(CollectorRegistry(), lambda: ProbeResult(is_healthy, "x"), lambda: ProbeResult(True, "x"))
    try:
        configured = f"127.0.0.1:{endpoint.port}"
        environment = {"QUORUMD_METRICS_LISTENER": configured} if place == "environment" else {}
        in_file = configured if place == "file" else f"127.0.0.1:{free_port()}"
        file = tmp_path / "quorumd.properties"
        text = CONTAINER_PROPERTIES.read_text()
        file.write_text(
            re.sub(r"^metrics\.listener=.*$", f"metrics.listener={in_file}", text, flags=re.MULTILINE)
        )
        python, *arguments = health_command()
        assert python == "python"
        command = [
            sys.executable,
            *(str(file) if each == PROPERTIES_IN_IMAGE else each for each in arguments),
        ]
        probed = subprocess.run(
            command, capture_output=True, timeout=PATIENCE_S, cwd=ROOT, env={**os.environ, **environment}
        )
        assert (probed.returncode == 0) == is_healthy, probed.stderr
    finally:
        endpoint.close()
