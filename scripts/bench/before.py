"""Committed writes of three daemons of this tree and of three daemons of an earlier commit, built in the same way.

Both clusters are configured by this tree and loaded in turns by its client, so that only the daemons differ.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.bench.pairs import Comparison, PairedReport, measure_pairs
from scripts.bench.processes import BenchError
from scripts.bench.quorumd_cluster import QuorumdCluster

IN_FLIGHT = (1, 16, 64, 256)
TARGET = 0.97


def measure_before(
    directory: Path,
    package: str,
    commit: str,
    is_compiled: bool,
    seconds: float,
    rounds: int,
    echo: Callable[[str], None],
) -> PairedReport:
    """Run all measurements. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    directory = directory.resolve()
    echo(f"checking out {commit}" + (" and compiling it" if is_compiled else ""))
    tree = directory / "tree"
    check_out(commit, tree)
    environment = environment_of(compile_package(tree) if is_compiled else tree)
    if is_compiled_package(environment) is not is_compiled:
        raise BenchError(f"{commit} is {'not ' if is_compiled else ''}compiled, unlike this tree")
    echo(f"starting three quorumd daemons of {commit} and three of this tree")
    start = (lambda nodes: QuorumdCluster(nodes, environment=environment), QuorumdCluster)
    comparison = Comparison("before", f"Commits of three daemons since {commit}", ("before", "now"), TARGET)
    report = measure_pairs(comparison, package, directory, start, IN_FLIGHT, seconds, rounds, echo)
    shutil.rmtree(directory)
    return report


def check_out(commit: str, tree: Path) -> None:
    """Write the files of a commit of the repository in the working directory. Raises BenchError."""
    archive = subprocess.run(["git", "archive", "--format=zip", commit], capture_output=True)
    if archive.returncode:
        raise BenchError(f"git archive {commit} failed: {archive.stderr.decode(errors='replace').strip()}")
    with zipfile.ZipFile(io.BytesIO(archive.stdout)) as files:
        files.extractall(tree)


def compile_package(tree: Path) -> Path:
    """Build the package as `make compile` does; return the directory that contains it. Raises BenchError."""
    target = tree / "build" / "compiled"
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(target)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pip", "install", *options, "."]
    built = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if built.returncode:
        raise BenchError(f"building {tree} failed: {built.stdout}{built.stderr}")
    return target


def environment_of(directory: Path) -> dict[str, str]:
    """Return the environment in which child processes import quorumd from `directory`."""
    # Without PYTHONSAFEPATH, the checkout in the working directory precedes any other directory.
    return {**os.environ, "PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"}


def is_compiled_package(environment: Mapping[str, str]) -> bool:
    """Return True if quorumd is compiled in an environment. Raises BenchError if it does not start."""
    command = [sys.executable, "-m", "quorumd", "--version"]
    version = subprocess.run(command, env=environment, capture_output=True, text=True)
    if version.returncode:
        raise BenchError(f"quorumd in {environment['PYTHONPATH']} does not start: {version.stderr}")
    return "(compiled)" in version.stdout
