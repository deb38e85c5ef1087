"""A small language for scenarios of a quorum: one command per line, with the events that it caused below.

A scenario file starts with a comment that states its claim. Lines with `> ` are commands, indented lines are the
transcript, other lines comments. `replay` runs the commands and returns the expected file.

    cluster 3 [new] [observers 1]   nodes 1, 2, 3 whose logs have the voter record of epoch 1, or nothing if new
    given 1 [log 1 1 2] [epoch 2] [leader 3] [vote 3]   what node 1 has on its disk, before it starts
    start [2 3] / restart 1         start all nodes, or these
    elect 1                         let time pass until 1 leads and a majority follows it
    quickest 2 [3 ...]              these draw the shortest random timeouts, in this order; the others follow by id
    advance 500ms | 2s              let time pass
    propose 1 a [b ...]             leader 1 appends records with these names, one per batch
    read 1 r                        request a linearizable read, named r, from node 1
    crash 1 / wipe 1 / stop 1       lose unflushed records / lose the whole disk / shut down gracefully
    cut 1->2 / partition 1|2,3 / heal   messages are lost
    hold 1->2 / deliver 1->2 [1] / drop 1->2 / release 1->2   messages are held back; `*` is every other node
    hold disk 2 / flush 2 / release disk 2   nothing becomes durable unless flushed
    full 1 / free 1                 the disk is full / has free space again
    status [1 2]                    role, log (after the bar: not durable yet), high watermark
    quietly ...                     any of these commands, without transcript
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator

from quorumd.errors import QuorumdError
from quorumd.ids import NO_NODE
from quorumd.raft.events import ShutdownRequested
from quorumd.raft.quorum_state import QuorumState
from tests.support.raft.quorum import key
from tests.support.scenarios.cluster import Link, ScenarioQuorum
from tests.support.scenarios.words import describe_node, describe_role

TIMEOUT_MS = 30_000
COMMANDS = (
    *("cluster", "given", "start", "restart", "crash", "wipe", "stop", "status"),
    *("quickest", "elect", "advance", "propose", "read"),
    *("cut", "partition", "heal", "hold", "release", "deliver", "drop", "flush", "full", "free"),
)


class ScenarioError(QuorumdError):
    """An invalid line of a scenario file, with the cause."""


def replay(name: str, text: str) -> str:
    """Return the scenario with the transcript of its commands. Raises ScenarioError with file and line."""
    if not text.startswith("#"):
        raise ScenarioError(f"{name}:1: begin with a comment that states the claim")
    scenario = Scenario()
    result = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("  "):
            continue
        result.append(line)
        if line.startswith(">"):
            try:
                result += scenario.run(line[1:].split())
            except (ValueError, KeyError, IndexError, AssertionError) as error:
                raise ScenarioError(f"{name}:{number}: {line!r}: {error}") from error
    return "\n".join(result) + "\n"


class Scenario:
    """One quorum, and the commands on it by name."""

    def __init__(self) -> None:
        self.quorum = ScenarioQuorum(3)
        self.commands: dict[str, Callable[[list[str]], None]] = {
            name: getattr(self, name) for name in COMMANDS
        }

    def run(self, words: list[str]) -> list[str]:
        """Run one command; return its transcript."""
        quiet = words[0] == "quietly"
        command, *arguments = words[1:] if quiet else words
        if command not in self.commands:
            raise ValueError(f"no such command; the commands are {', '.join(sorted(self.commands))}")
        self.quorum.transcript.begin(self.quorum.now)
        self.commands[command](arguments)
        if command not in ("cluster", "given"):
            self.quorum.settle()
        return [] if quiet else self.quorum.transcript.lines

    # Nodes

    def cluster(self, words: list[str]) -> None:
        observers = int(words[words.index("observers") + 1]) if "observers" in words else 0
        voters = int(words[0])
        self.quorum = ScenarioQuorum(voters, observers)
        if "new" not in words:
            for node_id in range(1, voters + 1):
                self.quorum.set_log(node_id, 1)

    def given(self, words: list[str]) -> None:
        node_id = int(words[0])
        found: dict[str, list[int]] = {"log": [], "epoch": [], "leader": [], "vote": []}
        numbers: list[int] = []
        for word in words[1:]:
            if word.isdigit():
                numbers.append(int(word))
            else:
                numbers = found[word]
        if found["log"]:
            self.quorum.set_log(node_id, *found["log"])
        epoch, leader = (
            found["epoch"] or [self.quorum.node(node_id).saved.epoch],
            found["leader"] or [NO_NODE],
        )
        voted = key(found["vote"][0]) if found["vote"] else None
        self.quorum.set_state(node_id, QuorumState(epoch[0], leader[0], voted))

    def start(self, words: list[str]) -> None:
        self.quorum.start(*map(int, words))

    restart = start

    def crash(self, words: list[str]) -> None:
        self.quorum.crash(int(words[0]))

    def wipe(self, words: list[str]) -> None:
        self.quorum.wipe(int(words[0]))

    def stop(self, words: list[str]) -> None:
        self.quorum.step(self.running(words[0]), ShutdownRequested())

    def status(self, words: list[str]) -> None:
        for node_id in map(int, words or self.quorum.nodes):
            self.quorum.record(node_id, describe_node(self.quorum.node(node_id)))

    # Time

    def quickest(self, words: list[str]) -> None:
        first = [int(word) for word in words]
        order = first + [n for n in self.quorum.nodes if n not in first]
        self.quorum.ranks.update({node_id: rank for rank, node_id in enumerate(order)})

    def elect(self, words: list[str]) -> None:
        node_id = int(words[0])
        self.quickest(words[:1])
        self.quorum.advance(TIMEOUT_MS, lambda: self.quorum.leader() == node_id)
        if self.quorum.leader() != node_id:
            raise ValueError(f"node {node_id} was not elected: {self.quorum}")
        self.quorum.transcript.begin(self.quorum.now)
        self.quorum.record(node_id, describe_role(self.quorum.node(node_id).engine))

    def advance(self, words: list[str]) -> None:
        amount = re.fullmatch(r"(\d+)(ms|s)", words[0])
        if amount is None:
            raise ValueError("a time is a number with ms or s")
        self.quorum.advance(int(amount[1]) * (1000 if amount[2] == "s" else 1))

    # Clients

    def propose(self, words: list[str]) -> None:
        for name in words[1:]:
            self.quorum.propose(self.running(words[0]), name.encode())

    def read(self, words: list[str]) -> None:
        self.quorum.read(self.running(words[0]), words[1])

    def running(self, word: str) -> int:
        if not self.quorum.node(int(word)).up:
            raise ValueError(f"node {word} is down")
        return int(word)

    # Network and disks

    def links(self, word: str) -> Iterator[Link]:
        """Yield the links of `1->2`, `1->*` or `*->2`."""
        source, target = word.split("->")
        ends = [[*self.quorum.nodes] if end == "*" else [int(end)] for end in (source, target)]
        return ((one, other) for one in ends[0] for other in ends[1] if one != other)

    def cut(self, words: list[str]) -> None:
        for link in self.links(words[0]):
            self.quorum.cut(*link, both=False)

    def partition(self, words: list[str]) -> None:
        groups = [[int(node_id) for node_id in group.split(",")] for group in words[0].split("|")]
        for group in groups:
            for source in group:
                for target in [node_id for other in groups if other is not group for node_id in other]:
                    self.quorum.cut(source, target, both=False)

    def heal(self, words: list[str]) -> None:
        self.quorum.heal()

    def hold(self, words: list[str]) -> None:
        if words[0] == "disk":
            self.quorum.node(int(words[1])).flushes = False
            return
        for link in self.links(words[0]):
            self.quorum.hold(link)

    def release(self, words: list[str]) -> None:
        if words[0] == "disk":
            self.quorum.node(int(words[1])).flushes = True
            self.flush(words[1:])
            return
        for link in self.links(words[0]):
            self.quorum.release(link)

    def deliver(self, words: list[str]) -> None:
        for link in self.links(words[0]):
            if link not in self.quorum.held_links:
                raise ValueError(f"{words[0]} is not held")
            held = self.quorum.held_links[link]
            for _ in range(int(words[1]) if len(words) > 1 else len(held)):
                self.quorum.deliver(held.popleft())

    def drop(self, words: list[str]) -> None:
        for link in self.links(words[0]):
            self.quorum.held_links.get(link, deque()).clear()

    def flush(self, words: list[str]) -> None:
        self.quorum.flush(self.quorum.node(int(words[0])))

    def full(self, words: list[str]) -> None:
        self.quorum.set_disk_full(int(words[0]), full=True)

    def free(self, words: list[str]) -> None:
        self.quorum.set_disk_full(int(words[0]), full=False)
