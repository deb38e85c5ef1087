"""Producers of every client on three real nodes that are killed, restarted and relieved of replicas.

written        acknowledged records, and the comparison with those in the log
writers        producers of kafka-python, aiokafka, librdkafka and kcat
readers        consumers in groups, with rebalances
disturbances   kills, rolling restarts and reassignments
trial          writers and groups at work on a disturbed cluster
__main__       all of them, for minutes
"""
