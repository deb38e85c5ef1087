"""The shipped systemd unit of the audit: its command runs under its system call filter, with its settings."""

from __future__ import annotations

import os
import shlex
import string
import subprocess
import sys
from pathlib import Path

from scripts.log_generator import LogShape, generate
from tests.support.log import damaged_logs
from tests.support.processes.system_calls import LINUX, filter_of

CONFIG = Path(__file__).resolve().parents[2] / "config"
UNIT = (CONFIG / "quorumd-audit.service").read_text()
FINDINGS = 1


def settings(text: str) -> dict[str, str]:
    """Read a file of environment variables as systemd does."""
    pairs = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


def command(unit: str, environment: dict[str, str]) -> list[str]:
    """Return the command of a unit: `${NAME}` stands for one argument, a word `$NAME` for several."""
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    found: list[str] = []
    for word in line.partition("=")[2].split():
        name = word.removeprefix("$")
        if word != name and name in environment:
            found += environment[name].split()
        else:
            found.append(string.Template(word).substitute(environment))
    return found


@LINUX
def test_scheduled_audit_runs_under_its_system_call_filter(tmp_path: Path) -> None:
    log = generate(tmp_path / "log", LogShape(records=5000, batch_records=8, nodes=2))
    damaged_logs.flip_bit(log.directories[2], 3000)
    textfile = tmp_path / "quorumd_audit.prom"
    given = settings((CONFIG / "quorumd-audit.env").read_text())
    assert given.keys() == {"DIRECTORIES", "TEXTFILE"}
    given |= {"DIRECTORIES": " ".join(f"{node}={directory}" for node, directory in log.directories.items())}
    given |= {"TEXTFILE": str(textfile)}

    program, *arguments = command(UNIT, given)
    assert program == "/opt/quorumd/bin/quorumd"
    ran = subprocess.run(
        [sys.executable, "-m", "quorumd", *arguments],
        preexec_fn=filter_of(UNIT),
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )

    assert ran.returncode == FINDINGS, ran.stderr
    assert ran.stderr == ""
    assert 'quorumd_audit_findings{code="BAD_CRC",severity="CRITICAL"} 1.0' in textfile.read_text()
