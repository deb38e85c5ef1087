"""Kafka for the test suites of other projects: real daemons on free ports of this machine, without a JVM.

    from quorumd.testing import KafkaCluster

    with KafkaCluster() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

cluster  the context manager; clusters of several nodes can kill and restart them
plugin   fixtures of pytest, loaded by its entry point: `quorumd_cluster` and `quorumd_bootstrap_servers`
"""

from quorumd.testing.cluster import KafkaCluster

__all__ = ["KafkaCluster"]
