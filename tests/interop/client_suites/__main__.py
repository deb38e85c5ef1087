"""`make client-suites`: kafka-python's own integration tests against one node of quorumd.

    python -m tests.interop.client_suites [PYTEST_OPTION]...

The tests are in the source distribution of the installed release, which is downloaded from PyPI; the fixtures that
start Kafka are replaced. The exit code is 1 if a test fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from quorumd.testing import KafkaCluster

DIRECTORY: Final = Path("build/client-suites")
FIXTURES: Final = Path(__file__).with_name("kafka_python_fixtures.py")
MODULES: Final = ("admin", "consumer", "producer")
RELEASE: Final = "4.3"
"""The release of Kafka whose features the tests expect."""

PROPERTIES: Final = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
"""The properties of the broker that kafka-python's fixtures would start."""


def unpacked_suite() -> Path:
    """Download and unpack the tests."""
    name = f"kafka_python-{version('kafka-python')}"
    target = DIRECTORY / name
    shutil.rmtree(target, ignore_errors=True)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    archive = DIRECTORY / f"{name}.tar.gz"
    if not archive.exists():
        requirement = f"kafka-python=={version('kafka-python')}"
        options = ["--quiet", "--no-deps", "--no-binary", "kafka-python", "--dest", str(DIRECTORY)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, requirement], check=True)
    with tarfile.open(archive) as packed:
        for member in packed:
            content = packed.extractfile(member)
            if content is not None and member.name.startswith(f"{name}/test/"):
                path = DIRECTORY / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    (target / "test/__init__.py").touch()
    shutil.copy(FIXTURES, target / "test/integration/fixtures.py")
    return target


def run(suite: Path, address: str, options: Sequence[str]) -> dict[str, str]:
    """Run the tests, and return the outcome of each test."""
    results = DIRECTORY.resolve() / "results.xml"
    results.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": RELEASE,
        "PYTHONPATH": str(suite.resolve()),
    }
    modules = [f"test/integration/test_{each}_integration.py" for each in MODULES]
    own = ["-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider", f"--junitxml={results}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *own, *modules, *options],
        cwd=suite,
        env=environment,
        check=False,
    )
    return outcomes(ElementTree.parse(results).getroot())


def outcomes(root: ElementTree.Element) -> dict[str, str]:
    """Read the outcomes from pytest's XML."""
    found = {}
    for case in root.iter("testcase"):
        kinds = [each.tag for each in case if each.tag in ("failure", "error", "skipped")]
        found[case.attrib["name"]] = kinds[0] if kinds else "passed"
    return found


def main(options: Sequence[str]) -> int:
    suite = unpacked_suite()
    with KafkaCluster(release=RELEASE, properties=PROPERTIES) as kafka:
        found = run(suite, kafka.bootstrap_servers, options)
    for name, outcome in found.items():
        print(f"{outcome:8} {name}")
    counts = Counter(found.values())
    failed = counts["failure"] + counts["error"]
    print(f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped")
    return int(not found or failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
