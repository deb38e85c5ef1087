"""Producers and consumers of every client on three real nodes, which are killed, restarted and reassigned.

written        acknowledged records, and their comparison with the records in the log
writers        producers of kafka-python, aiokafka, librdkafka and kcat
readers        consumers in groups, with rebalances
disturbances   kills, rolling restarts and reassignments
trial          writers and groups on a disturbed cluster, and the violations found
__main__       a trial of all clients, for minutes
"""
