"""Bounds of the files and objects of nodes once faults have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sized
from itertools import pairwise
from typing import Any, Final, NamedTuple

from quorumd.node.node import Node
from quorumd.node.snapshots.manager import SNAPSHOT_SIZE_RATIO
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY

CHECK_INTERVAL_MS: Final = 100.0
BUILD_MS: Final = 5000.0
"""Allowance for the build of a snapshot, which is throttled."""
SEGMENT, SNAPSHOT, BUILDING, PART = ".log", ".checkpoint", ".building", ".part"
DISK_IS_BOUNDED: Final = "snapshots are built and the log is cut"
MEMORY_IS_BOUNDED: Final = "an idle leader keeps few objects"
MAX_OBJECTS: Final = 64
"""Limit for collections of a constant size, such as the APIs that a connection supports."""
MAX_OBJECTS_PER_HOST: Final = 8
LOG_PATHS: Final = ("node.log", "node.engine")
SESSIONS_PATH: Final = "node.core.incoming._sessions"
PACKAGES: Final = ("quorumd.node.", "quorumd.raft.", "quorumd.log.", "quorumd.protocol.connection")
"""Modules whose objects are inspected. Images and log readers are not: they grow with the metadata."""


class Excess(NamedTuple):
    """A snapshot that a node should have built, or files that it should have removed."""

    text: str
    subject: int
    """The offset of the newest snapshot or of the oldest file. An excess with another subject is a new one, of a log
    that keeps growing."""


def require_bounded_disks(
    cluster: Cluster, committed: CommittedDataIsImmutable, run_until: Callable[[float], None]
) -> None:
    """Require that every node builds the snapshot that is due now, and removes the older ones and the segments beyond
    its retention. The log may grow meanwhile.

    Raises InvariantViolation.
    """
    options = cluster.options
    deadline_ms = cluster.heap.now_ms + 3 * options.maintenance_interval_ms + BUILD_MS
    pending = _excesses(cluster, committed)
    while pending:
        if cluster.heap.now_ms >= deadline_ms:
            node_id, excess = next(iter(pending.items()))
            raise InvariantViolation(DISK_IS_BOUNDED, f"node {node_id} {excess.text}")
        run_until(cluster.heap.now_ms + CHECK_INTERVAL_MS)
        now = _excesses(cluster, committed)
        pending = {
            node_id: now[node_id]
            for node_id, before in pending.items()
            if node_id in now and now[node_id].subject == before.subject
        }


def _excesses(cluster: Cluster, committed: CommittedDataIsImmutable) -> dict[int, Excess]:
    """Return the excess of each node that has one."""
    found: dict[int, Excess] = {}
    for machine in cluster.running():
        if machine.node is None or machine.exiting or machine.node.statistics.snapshots_failed:
            continue  # After a failed build a node waits for seconds.
        excess = _excess(cluster, machine, committed)
        if excess is not None:
            found[machine.node_id] = excess
    return found


def _excess(cluster: Cluster, machine: Machine, committed: CommittedDataIsImmutable) -> Excess | None:
    options, files = cluster.options, _files(machine)
    # The snapshot of offset 0, which Kafka's tools write, is kept.
    snapshots = sorted(
        (int(name[:20]), size) for name, size in files if _is_numbered(name, SNAPSHOT) and int(name[:20])
    )
    starts = sorted(int(name[:20]) for name, _ in files if _is_numbered(name, SEGMENT))
    unfinished = [name for name, _ in files if name.endswith((BUILDING, PART))]
    if len(unfinished) > 1:
        return Excess(f"has the unfinished files {unfinished}", -1)
    assert machine.node is not None
    high_watermark = machine.node.engine.high_watermark
    newest, newest_size = snapshots[-1] if snapshots else (0, 0)
    batches = [batch for batch in committed.batches if newest <= batch.base_offset < high_watermark]
    after = sum(len(batch.data) for batch in batches[:-1])
    due = max(float(options.snapshot_bytes), SNAPSHOT_SIZE_RATIO * newest_size)
    if after >= due:
        text = f"has {after} bytes of committed batches after its snapshot at {newest}; one is due after {due:.0f}"
        return Excess(text, newest)
    if options.retention_bytes < 0 or len(snapshots) < 2:
        return None
    start = starts[0] if starts else 0
    kept = sum(len(batch.data) for batch in machine.mirror.batches if batch.base_offset >= start)
    kept += sum(size for _, size in snapshots)
    previous = snapshots[-2][0]
    obsolete = [first for first, following in pairwise(starts) if following <= previous]
    if kept > options.retention_bytes and (obsolete or len(snapshots) > 2):
        text = (
            f"keeps {kept} bytes, more than {options.retention_bytes}: snapshots at {[s for s, _ in snapshots]}, "
            f"segments from {starts}"
        )
        return Excess(text, start if obsolete else snapshots[0][0])
    return None


def _files(machine: Machine) -> list[tuple[str, int]]:
    directory = f"{DATA_DIRECTORY}/"
    return [
        (path.rpartition("/")[2], len(data))
        for path, data in machine.disk.contents().items()
        if path.startswith(directory)
    ]


def _is_numbered(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and name[:20].isdigit()


def require_bounded_memory(cluster: Cluster) -> None:
    """Require that no collection of the idle leader has grown with the requests that it has served.

    Raises InvariantViolation.
    """
    for machine in cluster.running():
        node = machine.node
        if node is None or machine.exiting or machine.starting or not node.engine.is_leader:
            continue
        batches = len(machine.mirror.batches)
        most = MAX_OBJECTS + MAX_OBJECTS_PER_HOST * len(cluster.hosts())
        for path, size in _collections(node):
            # Segments, cached batches, epochs and voters by offset grow with the log.
            limit = most + 2 * batches if path.startswith(LOG_PATHS) else most
            if path == SESSIONS_PATH:
                # Clients decide how long they keep their connections, unless connections.max.idle.ms passes.
                limit = _open_connections(cluster, machine)
            if size > limit:
                raise InvariantViolation(
                    MEMORY_IS_BOUNDED,
                    f"node {machine.node_id} leads, is idle, and has {size} objects in {path}, more than {limit}",
                )


def _open_connections(cluster: Cluster, machine: Machine) -> int:
    """Count the connections that the running process of a machine has accepted, and not closed."""
    return sum(link.far.process is machine.process and link.far.open for link in cluster.network.links)


def _collections(node: Node) -> Iterator[tuple[str, int]]:
    """Yield the collections that are reachable from a node, as (path, size)."""
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("node", node)])
    while waiting:
        path, found = waiting.popleft()
        if id(found) in seen:
            continue
        seen.add(id(found))
        for name, value in _attributes(found):
            if isinstance(value, dict | list | deque | set):
                yield f"{path}.{name}", len(value)
                members = [*value, *value.values()] if isinstance(value, dict) else list(value)
                waiting.extend(
                    (f"{path}.{name}[]", each) for each in members[:MAX_OBJECTS] if _is_inspected(each)
                )
            elif _is_inspected(value):
                waiting.append((f"{path}.{name}", value))


def _is_inspected(value: object) -> bool:
    return type(value).__module__.startswith(PACKAGES)


def _attributes(found: object) -> Iterator[tuple[str, Sized | object]]:
    names = dict.fromkeys(vars(found)) if hasattr(found, "__dict__") else {}
    for each in type(found).__mro__:
        names |= dict.fromkeys(each.__dict__.get("__slots__", ()))
        names |= dict.fromkeys(each.__dict__.get("__mypyc_attrs__", ()))
    for name in names:
        value = getattr(found, name, None)
        if value is not None:
            yield name, value
