"""Record the verdicts of a stock controller on config changes in tests/support/data:

    python -m tests.interop.stock_tools.configs --kafka 4.4.0 --directory DIRECTORY

A unit test compares them with quorumd's verdicts. `make stock-tools` checks that a stock controller still has the
recorded verdicts.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import click
from kio.schema.alter_configs.v2 import request as replace
from kio.schema.broker_heartbeat.v1 import request as heartbeat
from kio.schema.broker_registration.v4 import request as registration
from kio.schema.create_topics.v7 import request as create
from kio.schema.incremental_alter_configs.v1 import request as alter

from tests.interop.stock_tools.claims import ClaimBroken, Step
from tests.interop.stock_tools.kafka_process import HEAP
from tests.interop.stock_tools.tools import KAFKA, STORAGE, StockTools, stock_tools
from tests.support.controller.config_cases import CREATE, DATA, REPLACE, TOPIC, Case, cases, recorded
from tests.support.processes.daemons import wait_for
from tests.support.processes.ports import free_port
from tests.support.processes.wire import Wire

RELEASE = "4.4.0"
"""The release of Kafka from which quorumd's table of configs is."""
SEED, COUNT = 13, 4000
BROKER_ID = 101
FEATURES = tuple(
    registration.Feature(name=name, min_supported_version=least, max_supported_version=99)
    for name, least in (("metadata.version", 1), ("kraft.version", 0), ("group.version", 0),
                        ("transaction.version", 0), ("share.version", 0), ("streams.version", 0),
                        ("eligible.leader.replicas.version", 0))
)  # fmt: skip
"""The features of a broker that supports every level of any release."""
SHOWN_DIFFERENCES = 5


def verdicts_of(release: str) -> Path:
    """Return the file with the recorded verdicts of a release."""
    return DATA / f"kafka_{release}_config_verdicts.jsonl"


@contextmanager
def stock_controller(tools: StockTools, directory: Path, *, remote: bool) -> Iterator[Wire]:
    """Start a quorum of one stock controller, and register a broker that sends one heartbeat."""
    directory.mkdir(parents=True)
    port = free_port()
    settings = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "broker.session.timeout.ms": "3600000",
        "remote.log.storage.system.enable": str(remote).lower(),
        "log.dirs": str(directory / "data"),
    }
    config = directory / "controller.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    cluster_id = "Y29uZmlncyBvZiBxdW9ydQ"
    tools.run(STORAGE, "format", "-t", cluster_id, "-c", config, "--standalone")
    with (directory / "controller.log").open("ab") as output:
        child = subprocess.Popen(tools.command(KAFKA, config, java=HEAP), stdout=output, stderr=output)
    try:
        with wait_for("the stock controller", lambda: _connected(port, cluster_id)) as wire:
            yield wire
    finally:
        child.kill()
        child.wait()


def _connected(port: int, cluster_id: str) -> Wire | None:
    try:
        wire = Wire(("127.0.0.1", port))
    except OSError:
        return None
    if _registered(wire, cluster_id):
        return wire
    wire.close()
    return None


def _registered(wire: Wire, cluster_id: str) -> bool:
    """Register the broker and send a heartbeat; return True if it is active."""
    try:
        made = wire.request(
            registration.BrokerRegistrationRequest(
                broker_id=BROKER_ID,
                cluster_id=cluster_id,
                incarnation_id=uuid4(),
                listeners=(registration.Listener(name="PLAINTEXT", host="h", port=1, security_protocol=0),),
                features=FEATURES,
                rack=None,
                log_dirs=(uuid4(),),
            )
        )
        if made.error_code != 0:
            return False
        alive = wire.request(
            heartbeat.BrokerHeartbeatRequest(
                broker_id=BROKER_ID,
                broker_epoch=made.broker_epoch,
                current_metadata_offset=1 << 40,
                want_fence=False,
                want_shut_down=False,
            )
        )
    except OSError:
        return False
    return int(alive.error_code) == 0 and not alive.is_fenced


class StockVerdicts:
    """Gets verdicts from a stock controller, after it has created resources with the base configs of the cases."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._names: dict[str, str] = {}

    def verdict(self, case: Case) -> int:
        """Return the error code of a case, which is only validated."""
        if case.form == CREATE:
            return self._create("made", [(name, value) for name, _, value in case.operations], is_kept=False)
        name = self._resource(case)
        if case.form == REPLACE:
            configs = tuple(
                replace.AlterableConfig(name=key, value=value) for key, _, value in case.operations
            )
            resource = replace.AlterConfigsResource(
                resource_type=case.kind, resource_name=name, configs=configs
            )
            response = self._wire.request(
                replace.AlterConfigsRequest(resources=(resource,), validate_only=True)
            )
            return int(response.responses[0].error_code)
        return self._alter(case, name, is_kept=False)

    def _resource(self, case: Case) -> str:
        """Create a resource with the base configs of a case, unless there is one, and return its name."""
        key = f"{case.kind}{sorted(case.base.items())}"
        if key not in self._names:
            name = "" if case.kind == 4 else f"resource-{len(self._names)}"
            if case.kind == TOPIC:
                code = self._create(name, list(case.base.items()), is_kept=True)
            else:
                base = Case(case.kind, "alter", {}, tuple((k, 0, v) for k, v in case.base.items()))
                code = self._alter(base, name, is_kept=True)
            if code:
                raise ClaimBroken(
                    f"{case.base} of resource type {case.kind} is rejected with error code {code}"
                )
            self._names[key] = name
        return self._names[key]

    def _alter(self, case: Case, name: str, *, is_kept: bool) -> int:
        configs = tuple(
            alter.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in case.operations
        )
        resource = alter.AlterConfigsResource(resource_type=case.kind, resource_name=name, configs=configs)
        request = alter.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=not is_kept)
        return int(self._wire.request(request).responses[0].error_code)

    def _create(self, name: str, configs: list[tuple[str, str | None]], *, is_kept: bool) -> int:
        topic = create.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=tuple(create.CreatableTopicConfig(name=key, value=value) for key, value in configs),
        )
        request = create.CreateTopicsRequest(topics=(topic,), validate_only=not is_kept)
        return int(self._wire.request(request).topics[0].error_code)


def stock_verdicts(tools: StockTools, directory: Path, wanted: list[Case]) -> list[tuple[Case, int]]:
    """Return the cases with a stock controller's verdicts."""
    found: list[tuple[Case, int]] = []
    for remote in (False, True):
        with stock_controller(tools, directory / f"remote-{remote}", remote=remote) as wire:
            controller = StockVerdicts(wire)
            found += [(case, controller.verdict(case)) for case in wanted if case.remote == remote]
    return found


class Configs:
    """The claim that a stock controller still has the recorded verdicts."""

    def __init__(self, tools: StockTools, directory: Path) -> None:
        self._tools = tools
        self._directory = directory

    def steps(self) -> list[Step]:
        return [(f"Kafka {RELEASE} still has the recorded verdicts of changes of configs", self._compare)]

    def _compare(self) -> str:
        known = {case.row(0): (case, verdict) for case, verdict in recorded(verdicts_of(RELEASE))}
        verdicts = stock_verdicts(self._tools, self._directory, [case for case, _ in known.values()])
        differing = [f"{case} {verdict}" for case, verdict in verdicts if known[case.row(0)][1] != verdict]
        if differing:
            raise ClaimBroken(
                f"{len(differing)} of {len(verdicts)} verdicts differ: {differing[:SHOWN_DIFFERENCES]}"
            )
        return f"{len(verdicts)} changes, {dict(Counter(verdict for _, verdict in verdicts))} by error code"


@click.command()
@click.option("--kafka", default=RELEASE, show_default=True, help="Version of the controller.")
@click.option(
    "--jars",
    default="build/stock-tools",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Directory of Kafka's jars.",
)
@click.option(
    "--directory", required=True, type=click.Path(path_type=Path), help="New directory for the controllers."
)
def main(kafka: str, jars: Path, directory: Path) -> None:
    """Record the verdicts of a stock controller."""
    begun = time.monotonic()
    verdicts = stock_verdicts(stock_tools(jars, kafka, "4.3.1"), directory, cases(SEED, COUNT))
    target = verdicts_of(kafka)
    target.write_text("".join(f"{case.row(verdict)}\n" for case, verdict in verdicts), encoding="utf-8")
    click.echo(f"{target}: {len(verdicts)} cases in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
