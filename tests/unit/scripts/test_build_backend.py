"""The build backend: the compiled sources of a wheel, and builds without compilation."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from quorumd import build
from scripts import build_backend

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
SMALL_PROJECT = """
[build-system]
requires = []
build-backend = "build_backend"
backend-path = ["scripts"]
[project]
name = "small"
version = "1"
[tool.setuptools]
packages = ["small", "small.warm"]
[tool.quorumd]
compiled = ["small/hot.py", "small/warm"]
"""


def test_compiled_packages_exist() -> None:
    files = build_backend.compiled_files()
    assert all(Path(file).is_file() and file.endswith(".py") for file in files)
    assert len(set(files)) == len(files)
    assert {
        "quorumd/raft/engine.py",
        "quorumd/log/segmented_log.py",
        "quorumd/node/consensus/raft_runner.py",
    } <= set(files)


def test_compilation_can_be_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORUMD_COMPILE", "0")
    assert build_backend.why_interpreted() == "QUORUMD_COMPILE=0"


def test_missing_compiler_is_named_and_mypy_not_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUORUMD_COMPILE", raising=False)
    monkeypatch.setenv("CC", "/no/such/compiler -O2")
    assert "/no/such/compiler" in (build_backend.why_interpreted() or "")
    assert build_backend.MYPY not in build_backend.get_requires_for_build_wheel()


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUORUMD_COMPILE", raising=False)
    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    reason = build_backend.why_interpreted()
    assert reason is not None
    assert f"{tmp_path}/Python.h" in reason
    (tmp_path / "Python.h").touch()
    assert build_backend.why_interpreted() is None
    assert build_backend.MYPY in build_backend.get_requires_for_build_wheel()


def test_source_archive_can_be_built(tmp_path: Path) -> None:
    name = build_backend.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        members = {member.split("/", 1)[-1] for member in archive.getnames()}
    assert {"pyproject.toml", "scripts/build_backend.py", "quorumd/raft/engine.py"} <= members


def test_checkout_is_interpreted_and_compiled_modules_are_detected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert build.description() == "interpreted"
    package = tmp_path / "quorumd"
    (package / "raft").mkdir(parents=True)
    (package / "raft" / f"engine{SUFFIX}").touch()
    monkeypatch.setattr(build, "__file__", str(package / "build.py"))
    assert build.description() == "compiled"


@pytest.mark.parametrize("turned_off", [False, True])
def test_wheel_has_compiled_modules_and_no_leftovers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, turned_off: bool
) -> None:
    monkeypatch.setenv("QUORUMD_COMPILE", "0" if turned_off else "1")
    project = tmp_path / "project"
    (project / "small" / "warm").mkdir(parents=True)
    (project / "small" / "__init__.py").touch()
    (project / "small" / "warm" / "__init__.py").touch()
    (project / "small" / "hot.py").write_text("def twice(number: int) -> int:\n    return number * 2\n")
    (project / "pyproject.toml").write_text(SMALL_PROJECT)
    (project / "scripts").mkdir()
    shutil.copy(build_backend.__file__, project / "scripts")
    for earlier in ("lib", f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"):
        (project / "build" / earlier / "small").mkdir(parents=True)
        (project / "build" / earlier / "small" / f"removed{SUFFIX}").touch()

    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--verbose"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1000,
    )

    assert built.returncode == 0, built.stdout
    (wheel,) = tmp_path.glob("small-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    reason = build_backend.why_interpreted()
    assert {"small/__init__.py", "small/hot.py"} <= names
    for module in ("hot", "warm/__init__"):
        assert (f"small/{module}{SUFFIX}" in names) is (reason is None)
    assert f"small/removed{SUFFIX}" not in names
    assert (f"installed interpreted: {reason}" in built.stdout) is (reason is not None)
