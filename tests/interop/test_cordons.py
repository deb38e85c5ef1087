"""Log directories that `quorumd configs` has cordoned get no new replicas until they are uncordoned."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes.daemons import run_quorumd, wait_for
from tests.support.processes.log_directories import DirectoryCluster, TwoDirectories

PARTITIONS = 4
PROPERTIES = "broker.heartbeat.interval.ms=200\n"


def test_cordons_are_set_through_their_brokers(tmp_path: Path) -> None:
    """The command connects to the listener of the controllers, which do not know the paths."""
    with DirectoryCluster(tmp_path, 3, PROPERTIES).running() as cluster:
        controllers = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)

        def change(*arguments: str) -> str:
            done = run_quorumd("configs", *arguments[:1], "--bootstrap-server", controllers, *arguments[1:])
            return "" if done.returncode == 0 else done.stderr

        def cordon(node: TwoDirectories, path: object) -> str:
            return change("set", "--type", "broker", "--name", str(node.node_id), f"cordoned.log.dirs={path}")

        assert [cordon(node, node.first) for node in cluster.nodes] == ["", "", ""]
        assert "'/nowhere' in log.dirs" in cordon(cluster.nodes[1], "/nowhere")
        for node in cluster.nodes:
            wait_for("the cordon", lambda node=node: node.described(node.first).is_cordoned)  # type: ignore[misc] # the type of a default
        cluster.create_topic(PARTITIONS)
        assert [len(node.numbers(node.second)) for node in cluster.nodes] == [PARTITIONS] * 3

        node = cluster.nodes[2]
        assert change("delete", "--type", "broker", "--name", str(node.node_id), "cordoned.log.dirs") == ""
        wait_for("no cordon", lambda: not node.described(node.first).is_cordoned)
