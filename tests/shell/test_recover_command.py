"""A quorum whose voters have the last epoch, and its recovery by `quorumd recover`."""

from __future__ import annotations

import re
from pathlib import Path

from quorumd.errors import ExitCode
from quorumd.log.quorum_state_file import QuorumStateFile
from quorumd.raft.replica import LAST_EPOCH, MAX_EPOCH
from quorumd.runtime.disk import OsDisk
from tests.support.processes.daemons import Cluster, Daemon, run_quorumd

LAST = re.compile(r"last epoch of the log (\d+)")


def state_file(daemon: Daemon) -> QuorumStateFile:
    return QuorumStateFile(OsDisk(lambda callback: None), str(daemon.partition_directory))


def epoch_of(daemon: Daemon) -> int:
    state = state_file(daemon).load()
    assert state is not None
    return state.leader_epoch


def recover(daemon: Daemon, *arguments: str, exit_code: int = 0) -> str:
    result = run_quorumd("recover", "--config", daemon.config, *arguments)
    assert result.returncode == exit_code, result.stderr
    return str(result.stdout)


def test_quorum_with_exhausted_epochs_elects_a_leader_after_recovery(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        cluster.start()
        end = cluster.wait_until_level()
        recover(cluster[1], exit_code=ExitCode.DATA_DIRECTORY)
        cluster.stop()
        sane = epoch_of(cluster[1])
        recover(cluster[1], "--epoch", str(sane + 1), "--yes", exit_code=ExitCode.FAILED)
        assert epoch_of(cluster[1]) == sane
        for daemon in cluster:
            state = state_file(daemon).load()
            assert state is not None
            state_file(daemon).save(state._replace(leader_epoch=MAX_EPOCH))
        last_epochs = [int(LAST.findall(recover(daemon))[0]) for daemon in cluster]
        chosen = max(last_epochs) + 1
        for wrong in (last_epochs[0], LAST_EPOCH):
            recover(cluster[1], "--epoch", str(wrong), "--yes", exit_code=ExitCode.FAILED)
        recover(cluster[1], "--epoch", str(chosen))
        assert [epoch_of(daemon) for daemon in cluster] == [MAX_EPOCH] * 3, "without --yes nothing changes"
        for daemon in cluster:
            recover(daemon, "--epoch", str(chosen), "--yes")
        cluster.start()
        assert cluster.wait_until_level() > end
        assert cluster.leader_quorum().epoch > chosen
    finally:
        cluster.stop()
