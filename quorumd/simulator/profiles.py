"""What a seed draws its options from, as data: one profile for everything, others for one kind of trouble each.

Every number is drawn, and so is how probable things are (swarm testing): runs in which one kind of fault is
frequent and another never happens find bugs that an average of everything does not (Groce et al., "Swarm
Testing", 2012).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.simulator.options import BROKER_FAULT_NAMES, FAULT_NAMES

Range = tuple[float, float]

DEFAULT = "swarm"
VOTER_CHANGE = "voter change"


@dataclass(frozen=True, slots=True)
class Profile:
    """Ranges of what a seed draws. Times in milliseconds, sizes in bytes."""

    name: str
    sentence: str
    """What it is for, in one sentence; shown to people."""
    faults: tuple[str, ...] = FAULT_NAMES
    """What may be drawn."""
    fault_share: Range = (0.1, 0.9)
    """How probable each of them is to happen in a seed at all."""
    fault_interval_ms: Range = (150.0, 2500.0)
    voters: tuple[int, ...] = (1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7)
    observers: tuple[int, ...] = (0, 0, 0, 0, 1, 1, 2, 3, 4, 5)
    safety_ms: Range = (4e3, 12e3)
    short_share: float = 0.25
    """Of the seeds: so many end amid the first election and the first records."""
    election_timeout_ms: Range = (150.0, 1000.0)
    clock_drift: Range = (1e-4, 0.08)
    segment_bytes: Range = (1024.0, 1e6)
    snapshot_bytes: Range = (1e3, 1e6)
    look_after_files_ms: Range = (100.0, 5000.0)
    disk_ms: Range = (0.05, 5.0)
    """What a disk needs at least for a call."""
    clients: tuple[int, ...] = (1, 2, 3, 4, 6)
    think_ms: Range = (3.0, 40.0)
    """The shortest wait of clients; the longest is some times that."""
    brokers: tuple[int, ...] = (0,)
    """How many there are."""
    broker_faults: tuple[str, ...] = BROKER_FAULT_NAMES
    """What may be drawn where there are some."""
    broker_session_ms: Range = (300.0, 3000.0)
    controller_patience: Range = (0.3, 4.0)
    """How many sessions a broker waits for the controller's answer."""
    admin_ms: Range = (100.0, 1500.0)
    partitions_in_a_step: tuple[int, ...] = (10_000,)


ALL = Profile("swarm", "Any mix of everything, each seed another.", brokers=(0,) * 38 + (3, 4))
_DISK_FAULTS = ("power loss", "power loss in a disk call", "disk stall", "disk full", "failed sync")
_PARTITIONS = ("partition", "one-way partition", "ring partition", "isolated leader")
_MISTAKES = ("wrong cluster id", "swapped folders", "copied folder")
_CONNECTIONS = ("clogged link", "broken link", "delayed connection", "replayed connection")

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        ALL,
        Profile("calm", "Nothing is broken: what goes wrong here goes wrong every day.", faults=()),
        Profile(
            "disk",
            "Power fails; disks stall, fill up, fail, rot and are replaced; with small segments.",
            faults=(*_DISK_FAULTS, "rotten segment", "replaced disk", "kill", "shutdown"),
            fault_share=(0.4, 1.0),
            segment_bytes=(1024.0, 16e3),
        ),
        Profile(
            "full disks",
            "Disks fill up again and again while many clients read what others are writing.",
            faults=("disk full",),
            fault_share=(1.0, 1.0),
            fault_interval_ms=(20.0, 200.0),
            voters=(1, 1, 2, 3),
            observers=(0,),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
            clients=(4, 6, 8),
            think_ms=(1.0, 8.0),
        ),
        Profile(
            "rot under readers",
            "Disks forget what replicas with new ones, which have nothing, ask their leader for.",
            faults=("rotten segment", "replaced disk", "kill", "isolated leader"),
            fault_share=(1.0, 1.0),
            fault_interval_ms=(100.0, 600.0),
            voters=(3,),
            observers=(1, 2, 3),
            safety_ms=(3e3, 8e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
            segment_bytes=(600.0, 4e3),
            snapshot_bytes=(1e6, 1e8),
        ),
        Profile(
            "network",
            "Partitions of all shapes; connections that break, lag and repeat themselves.",
            faults=(*_PARTITIONS, *_CONNECTIONS),
            fault_share=(0.3, 1.0),
            voters=(3, 4, 5, 5, 7),
        ),
        Profile(
            "elections",
            "Leaders come and go: short time-outs, leaders cut off, paused, restarted.",
            faults=("isolated leader", "partition", "one-way partition", "paused process", "shutdown", "kill",
                    "power loss", "replayed connection"),
            fault_share=(0.4, 1.0),
            fault_interval_ms=(100.0, 800.0),
            voters=(2, 3, 3, 4, 5, 7),
            election_timeout_ms=(100.0, 300.0),
        ),
        Profile(
            "beginnings",
            "Nodes die from the first moment on: before, amid and just behind the first election.",
            faults=("power loss", "kill", "shutdown"),
            fault_share=(0.6, 1.0),
            fault_interval_ms=(10.0, 150.0),
            voters=(1, 2, 2, 3, 3),
            observers=(0, 0, 1),
            safety_ms=(100.0, 1500.0),
            short_share=0.0,
            election_timeout_ms=(100.0, 400.0),
        ),
        Profile(
            "voters",
            "Who votes is changed, cancelled and changed again while nodes crash and links break.",
            faults=(VOTER_CHANGE, "power loss", "kill", "shutdown", "partition", "isolated leader", "paused process"),
            fault_share=(0.6, 1.0),
            fault_interval_ms=(100.0, 1000.0),
            voters=(1, 2, 3, 3, 4, 5),
            observers=(1, 2, 2, 3, 4),
        ),
        Profile(
            "removals",
            "Small quorums lose voters, and whoever leads loses its power amid it.",
            faults=(VOTER_CHANGE, "power loss", "power loss in a disk call", "isolated leader"),
            fault_share=(0.8, 1.0),
            fault_interval_ms=(15.0, 150.0),
            voters=(2, 2, 2, 3),
            observers=(0, 0, 1),
            safety_ms=(1e3, 4e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
        ),
        Profile(
            "handovers",
            "Leaders are voted out, and start anew while others wait to become voters; all is calm at the end.",
            faults=(VOTER_CHANGE, "kill", "broken link", "clogged link"),
            fault_share=(0.6, 1.0),
            fault_interval_ms=(50.0, 600.0),
            voters=(1, 1, 2, 3),
            observers=(1, 2, 3),
            safety_ms=(1e3, 5e3),
            short_share=0.0,
            election_timeout_ms=(500.0, 1500.0),
        ),
        Profile(
            "silent voters",
            "Voters fall silent while the set of them becomes smaller: a leader that hears of too few must end.",
            faults=(VOTER_CHANGE, "untimely removal"),
            fault_share=(1.0, 1.0),
            fault_interval_ms=(200.0, 1500.0),
            voters=(3, 3, 5),
            observers=(0,),
            safety_ms=(4e3, 10e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
        ),
        Profile(
            "sealed segments",
            "Segments of a few batches, sealed by many clients, and files that are looked after seldom.",
            faults=("kill", "paused process"),
            fault_share=(0.0, 0.6),
            voters=(3, 3, 5),
            observers=(0, 1),
            safety_ms=(300.0, 1500.0),
            short_share=0.0,
            segment_bytes=(600.0, 4e3),
            look_after_files_ms=(20e3, 60e3),
            clients=(4, 6, 8),
            think_ms=(1.0, 8.0),
        ),
        Profile(
            "snapshots",
            "Snapshots all the time and logs that keep little: replicas that were away need one; with crashes.",
            faults=("power loss", "power loss in a disk call", "kill", "disk full", "replaced disk", "partition",
                    "isolated leader", "broken link"),
            fault_share=(0.3, 1.0),
            observers=(0, 1, 1, 2),
            segment_bytes=(600.0, 4e3),
            snapshot_bytes=(300.0, 6e3),
            look_after_files_ms=(50.0, 500.0),
        ),
        Profile(
            "copied snapshots",
            "Operators copy snapshots from node to node and sync nothing, and power fails.",
            faults=("copied snapshots", "power loss", "kill"),
            fault_share=(0.7, 1.0),
            fault_interval_ms=(100.0, 1000.0),
            voters=(2, 3, 3),
            observers=(0, 1),
            safety_ms=(3e3, 8e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 400.0),
            segment_bytes=(600.0, 3e3),
            snapshot_bytes=(300.0, 3e3),
            look_after_files_ms=(50.0, 400.0),
        ),
        Profile(
            "clocks",
            "Clocks run at different speeds and jump; processes pause and are slow.",
            faults=("clock jump", "paused process", "slow process", "kill", "shutdown"),
            fault_share=(0.5, 1.0),
            clock_drift=(0.01, 0.2),
        ),
        Profile(
            "operator",
            "Nodes are restarted, get new disks, and are started with what is not theirs.",
            faults=(*_MISTAKES, "replaced disk", "shutdown", "clock jump"),
            fault_share=(0.5, 1.0),
            fault_interval_ms=(300.0, 2500.0),
        ),
        Profile(
            "dense",
            "Faults without pause on a small cluster.",
            fault_share=(0.5, 1.0),
            fault_interval_ms=(40.0, 200.0),
            voters=(3,),
            observers=(0, 0, 1),
            safety_ms=(3e3, 8e3),
        ),
        Profile(
            "reads",
            "Leaders are cut off while many clients ask them: what they do not know any more they must not tell.",
            faults=("isolated leader",),
            fault_share=(1.0, 1.0),
            fault_interval_ms=(500.0, 2000.0),
            voters=(3, 5, 5),
            observers=(0, 0, 1),
            safety_ms=(6e3, 15e3),
            short_share=0.0,
            election_timeout_ms=(150.0, 600.0),
            clients=(4, 6, 8),
            think_ms=(3.0, 15.0),
        ),
        Profile(
            "brokers",
            "Brokers replicate data, crash, lose disks and are cut off while partitions are moved and leaders die.",
            faults=("power loss", "kill", "shutdown", "paused process", "isolated leader", "partition",
                    "one-way partition", "clogged link", "broken link", "delayed connection", "replayed connection"),
            fault_share=(0.1, 0.7),
            fault_interval_ms=(200.0, 2500.0),
            voters=(1, 3, 3, 3),
            observers=(0,),
            safety_ms=(8e3, 20e3),
            short_share=0.1,
            election_timeout_ms=(100.0, 600.0),
            clients=(1,),
            brokers=(3, 3, 4, 4, 5),
        ),
        Profile(
            "reassignments",
            "Partitions are moved, moved elsewhere and back without pause, while brokers come and go.",
            faults=(),
            fault_share=(0.4, 0.9),
            fault_interval_ms=(80.0, 600.0),
            voters=(1,),
            observers=(0,),
            safety_ms=(8e3, 15e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
            clients=(1,),
            brokers=(4, 4, 5),
            broker_session_ms=(300.0, 800.0),
            admin_ms=(30.0, 200.0),
        ),
        Profile(
            "controllers",
            "The controller dies, is cut off and stands still amid what brokers and administrators want of it.",
            faults=("power loss", "isolated leader", "paused process"),
            fault_share=(0.5, 1.0),
            fault_interval_ms=(60.0, 500.0),
            voters=(2, 3, 3),
            observers=(0,),
            safety_ms=(5e3, 12e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 200.0),
            clients=(1,),
            brokers=(3, 4),
            broker_session_ms=(300.0, 1000.0),
            admin_ms=(50.0, 400.0),
        ),
        Profile(
            "inheritances",
            "Disks are slow and leaders die: who leads next is asked long before it knows what is committed.",
            faults=("power loss", "isolated leader"),
            fault_share=(0.7, 1.0),
            fault_interval_ms=(200.0, 600.0),
            voters=(3,),
            observers=(0,),
            safety_ms=(5e3, 12e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 200.0),
            disk_ms=(5.0, 20.0),
            clients=(1,),
            brokers=(4,),
            broker_faults=("broker shutdown",),
            broker_session_ms=(400.0, 1000.0),
            admin_ms=(20.0, 60.0),
        ),
        Profile(
            "registrations",
            "Brokers start again and again while who votes is changed: their records meet those of the quorum.",
            faults=(VOTER_CHANGE,),
            fault_share=(1.0, 1.0),
            fault_interval_ms=(30.0, 200.0),
            voters=(1, 2, 3),
            observers=(1, 2),
            safety_ms=(4e3, 10e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
            clients=(1,),
            brokers=(4, 5),
            broker_faults=("broker crash", "broker shutdown"),
            broker_session_ms=(300.0, 800.0),
            admin_ms=(100.0, 400.0),
        ),
        Profile(
            "drains",
            "Brokers come and go that have more partitions than change in one step, and leaders die amid it.",
            faults=("isolated leader", "kill"),
            fault_share=(0.3, 1.0),
            fault_interval_ms=(100.0, 1000.0),
            voters=(1, 3),
            observers=(0,),
            safety_ms=(6e3, 12e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
            clients=(1,),
            brokers=(3, 4),
            broker_faults=("controlled shutdown", "paused broker", "broker shutdown"),
            broker_session_ms=(300.0, 1000.0),
            admin_ms=(100.0, 600.0),
            partitions_in_a_step=(1, 1, 2, 3),
        ),
        Profile(
            "isr changes",
            "Requests of brokers that change who is in sync come late, twice, or with their answers lost.",
            faults=("isolated leader",),
            fault_share=(0.8, 1.0),
            fault_interval_ms=(500.0, 2000.0),
            voters=(1, 3),
            observers=(0,),
            safety_ms=(10e3, 20e3),
            short_share=0.0,
            election_timeout_ms=(100.0, 300.0),
            clients=(1,),
            brokers=(3, 4),
            broker_faults=("untimely ISR change", "broker shutdown"),
            broker_session_ms=(300.0, 800.0),
            controller_patience=(0.8, 3.0),
            admin_ms=(500.0, 4000.0),
        ),
    )
}  # fmt: skip
