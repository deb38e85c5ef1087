"""What can go wrong, one class each: whether it can happen now, and how it happens.

A fault arranges its own end (a restart, a healed way) when it is injected, so that any mix of faults can be
drawn at any time. `Cluster.repair` ends them all early.

    crashes    processes and machines that end: kill, shutdown, power loss, also in the middle of a disk call
    processes  processes that get no time: stopped, slow
    links      partitions; connections that break, lag or repeat themselves
    disks      stalls, no room, failed syncs
    clocks     wall clocks that jump
    folders    damaged segments, lost disks, and mistakes of operators
    snapshots  operators that copy them
    versions   files that a later version wrote
    foundings  what could found a second quorum, or lose the first
    voters     operators that change who votes
    brokers    brokers that crash, lose disks, stand still, and are cut off
"""

from __future__ import annotations

from quorumd.simulator.faults.base import Fault
from quorumd.simulator.faults.bootstrap import MovedQuorum, WipedDisks
from quorumd.simulator.faults.brokers import (
    BrokerCrash,
    BrokerDiskLoss,
    BrokerShutdown,
    ControlledShutdown,
    DelayedIsrChange,
    IsolatedBroker,
    PausedBroker,
    SlowBroker,
)
from quorumd.simulator.faults.clocks import ClockJump
from quorumd.simulator.faults.crashes import Kill, KillEverything, PowerLoss, PowerLossInDiskCall, ShutDown
from quorumd.simulator.faults.data_folders import (
    CopiedFolder,
    CorruptSegment,
    ReplacedDisk,
    SwappedFolders,
    WrongClusterId,
)
from quorumd.simulator.faults.disks import DiskFull, DiskStall, FailedSync
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
from quorumd.simulator.faults.processes import PausedProcess, SlowProcess
from quorumd.simulator.faults.registrations import Unregistration
from quorumd.simulator.faults.snapshots import CopiedSnapshots
from quorumd.simulator.faults.versions import NewerRecordVersion
from quorumd.simulator.faults.voters import RemovalWithoutMajority, VoterChange

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
    SwappedFolders(),
    CopiedFolder(),
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
    CopiedSnapshots(),
    NewerRecordVersion(),
    KillEverything(),
    WipedDisks(),
    MovedQuorum(),
    Unregistration(),
)
