"""Which process an id belonged to when it was recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from quorumd.cli import process_identity
from quorumd.cli.process_identity import ProcessIdentity


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(params=["proc", "ps"])
def without_proc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> str:
    """As on Linux, and as on macOS."""
    if request.param == "ps":
        monkeypatch.setattr(process_identity, "_BOOT", tmp_path)
        monkeypatch.setattr(process_identity, "_started", process_identity._started_by_ps)
    return str(request.param)


@pytest.mark.usefixtures("without_proc")
def test_process_is_running_until_it_ends(process: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    assert identity.is_running
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not identity.is_running, "ended, even if its parent does not know yet"
    process.wait()
    assert not identity.is_running


@pytest.mark.usefixtures("without_proc")
def test_process_that_reuses_the_id_is_another(process: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    earlier = identity._replace(started=f"{identity.started}0")
    assert not earlier.is_running
    earlier.send(signal.SIGKILL)
    assert process.poll() is None
    identity.send(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    identity.send(signal.SIGTERM)


@pytest.mark.usefixtures("without_proc")
def test_process_of_another_user_is_unknown(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert ProcessIdentity.of(process.pid) is None


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="only /proc/PID/stat has other fields after the name"
)
def test_name_of_the_program_may_look_like_further_fields() -> None:
    name = "a) S 1 1 1"
    code = f"import ctypes, signal; ctypes.CDLL(None).prctl(15, {name.encode()!r}); print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        before = ProcessIdentity.of(process.pid)
        assert process.stdout is not None
        process.stdout.readline()
        after = ProcessIdentity.of(process.pid)
        process.kill()
    assert before is not None
    assert after == before
