"""Faults, one class each: `available` checks whether the fault is possible now, `inject` carries it out.

A fault schedules its own end (a restart, an unblocked path) when it is injected, so that any mix of faults can be
drawn at any time. `Cluster.repair` ends all faults early.

    base              the protocol of faults
    crashes           processes and machines that end: kill, shutdown, power loss, also during a disk call
    processes         processes without processor time: paused, stalled, slow
    links             network partitions; connections that break, lag or replay requests
    disks             stalls, full disks, failed syncs, reads and writes, also when a segment begins
    clocks            wall clocks that jump
    data_directories  corrupted segments, replaced disks, and mistakes of operators
    damaged_files     damaged small files, lost segments, and logs that contradict themselves
    contradictions    the content of such logs
    damaged_indexes   damaged indexes, which nodes rebuild
    formats           directories that are formatted again
    refused_requests  requests that must be refused
    transfers         faults in the middle of the transfer and of the installation of a snapshot
    snapshots         snapshots copied by operators
    versions          files written by a later version
    bootstrap         events that could found a second quorum, or make the first unreachable
    voters            voter changes by operators
    addresses         nodes that move to other addresses
    hostile           forged requests
    invalid_peers     invalid requests of peers
    logins            refused logins of nodes
    faulty_leaders    wrong responses to the fetches of followers
    registrations     controllers unregistered by operators
    broker_nodes      nodes with the broker role: lost responses to proposals, late metadata, raised
                      min.insync.replicas, power losses after moves, directories that others use
    brokers           brokers that crash, lose disks, pause, and are isolated
"""

from __future__ import annotations

from quorumd.simulator.faults.addresses import MovedNode
from quorumd.simulator.faults.base import Fault
from quorumd.simulator.faults.bootstrap import MovedQuorum, WipedDisks
from quorumd.simulator.faults.broker_nodes import (
    LateMetadata,
    LostIsrResponse,
    PowerLossAfterMove,
    RaisedMinIsr,
    RefusedDirectory,
)
from quorumd.simulator.faults.brokers import (
    BrokerCrash,
    BrokerDiskLoss,
    BrokerShutdown,
    ControlledShutdown,
    DelayedIsrChange,
    IsolatedBroker,
    LostDirectory,
    PausedBroker,
    SlowBroker,
)
from quorumd.simulator.faults.clocks import ClockJump
from quorumd.simulator.faults.crashes import Kill, KillEverything, PowerLoss, PowerLossInDiskCall, ShutDown
from quorumd.simulator.faults.damaged_files import DamagedFile
from quorumd.simulator.faults.damaged_indexes import DamagedIndexes
from quorumd.simulator.faults.data_directories import (
    CopiedDirectory,
    CorruptSegment,
    ReplacedDisk,
    SwappedDirectories,
    WrongClusterId,
)
from quorumd.simulator.faults.disks import (
    DiskFull,
    DiskStall,
    FailedDirectorySync,
    FailedRead,
    FailedSegment,
    FailedSync,
    FailedWrite,
)
from quorumd.simulator.faults.faulty_leaders import FaultyLeader
from quorumd.simulator.faults.formats import RepeatedFormat
from quorumd.simulator.faults.hostile import HostilePeer
from quorumd.simulator.faults.invalid_peers import InvalidPeerRequest
from quorumd.simulator.faults.links import (
    BrokenLink,
    CloggedLink,
    DelayedConnection,
    IsolatedLeader,
    OneWayPartition,
    Partition,
    ReplayedConnection,
    RingPartition,
)
from quorumd.simulator.faults.logins import RefusedLogin
from quorumd.simulator.faults.processes import PausedProcess, SlowProcess, StalledEventLoop
from quorumd.simulator.faults.refused_requests import RefusedRequest
from quorumd.simulator.faults.registrations import Unregistration
from quorumd.simulator.faults.snapshots import CopiedSnapshots
from quorumd.simulator.faults.transfers import DisturbedTransfer, InterruptedInstallation, InterruptedTransfer
from quorumd.simulator.faults.versions import NewerRecordVersion
from quorumd.simulator.faults.voters import (
    RaftVoterChange,
    RemovalWithoutMajority,
    UnchangedVoter,
    VoterChange,
)

ALL_FAULTS: tuple[Fault, ...] = (
    PowerLoss(),
    PowerLossInDiskCall(),
    Kill(),
    ShutDown(),
    PausedProcess(),
    SlowProcess(),
    Partition(),
    OneWayPartition(),
    RingPartition(),
    IsolatedLeader(),
    CloggedLink(),
    BrokenLink(),
    DelayedConnection(),
    ReplayedConnection(),
    DiskStall(),
    DiskFull(),
    FailedSync(),
    ClockJump(),
    CorruptSegment(),
    ReplacedDisk(),
    WrongClusterId(),
    SwappedDirectories(),
    CopiedDirectory(),
    VoterChange(),
    BrokerCrash(),
    BrokerDiskLoss(),
    BrokerShutdown(),
    ControlledShutdown(),
    PausedBroker(),
    SlowBroker(),
    IsolatedBroker(),
    DelayedIsrChange(),
    RemovalWithoutMajority(),
    RaftVoterChange(),
    CopiedSnapshots(),
    NewerRecordVersion(),
    KillEverything(),
    WipedDisks(),
    MovedQuorum(),
    Unregistration(),
    StalledEventLoop(),
    MovedNode(),
    HostilePeer(),
    FailedDirectorySync(),
    FailedRead(),
    DamagedFile(),
    DisturbedTransfer(),
    RepeatedFormat(),
    RefusedRequest(),
    FailedWrite(),
    InterruptedInstallation(),
    UnchangedVoter(),
    FaultyLeader(),
    InvalidPeerRequest(),
    InterruptedTransfer(),
    FailedSegment(),
    DamagedIndexes(),
    RefusedLogin(),
    LostDirectory(),
    LostIsrResponse(),
    LateMetadata(),
    RaisedMinIsr(),
    RefusedDirectory(),
    PowerLossAfterMove(),
)
