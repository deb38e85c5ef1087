"""Kafka for the test suites of other projects: real daemons on free local ports, without a JVM.

    from quorumd.testing import KafkaCluster

    with KafkaCluster() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

cluster  the context manager; clusters of several nodes can kill and restart them
plugin   the pytest plugin, with the fixtures `quorumd_cluster` and `quorumd_bootstrap_servers`
"""

from quorumd.testing.cluster import KafkaCluster

__all__ = ["KafkaCluster"]
