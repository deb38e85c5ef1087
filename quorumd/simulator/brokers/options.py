"""How many brokers there are, and how they and those who use them behave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Times in milliseconds of virtual time; the names that Kafka has for them are in brackets."""

    count: int = 0
    racks: int = 0
    """Among how many racks they take turns, 0 for none at all."""
    session_timeout_ms: float = 2000.0
    """[broker.session.timeout.ms]"""
    heartbeat_ms: float = 400.0
    """[broker.heartbeat.interval.ms]"""
    longest_lag_ms: float = 1500.0
    """[replica.lag.time.max.ms]"""
    fetch_wait_ms: float = 300.0
    """[replica.fetch.wait.max.ms]"""
    flush_ms: float = 500.0
    """How often the kernel writes back what was appended, about."""
    write_timeout_ms: float = 1500.0
    write_ms: float = 30.0
    """How long it is from one record of the producers to the next, about."""
    admin_ms: float = 300.0
    """The same of the wishes of administrators."""
    controller_timeout_ms: float = 1000.0
    """After that long without an answer a broker gives up a request to the controller, and its connection."""
    shutdown_timeout_ms: float = 4000.0
    """A broker that may not shut down does so after that long all the same."""
    max_partitions_per_step: int = 10_000
    """How many change at once when a broker comes or goes: brokers have few here, so it takes a small number."""
    balance_ms: float = 0.0
    """[leader.imbalance.check.interval.seconds]; 0 for never."""
    cordon_ms: float = 0.0
    """Mean time between two brokers that are cordoned, or are so no longer; 0 for never."""
    log_directories: int = 1
    """How many each broker has [log.dirs]."""
    raises_min_isr: bool = False
    """Whether min.insync.replicas is changed while topics are in use."""
    only_topics: bool = False
    """Whether administrators only create, grow and delete topics."""
    unclean_topics: float = 0.0
    """How many of the topics may have leaders that lack records."""
