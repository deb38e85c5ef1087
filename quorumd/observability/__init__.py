"""Metrics and logs of a node.

metrics             the list of all metrics and the Prometheus collector that reads them when scraped
node_metric         one metric and how it is read
controller_metrics  metrics of brokers, topics and partitions
broker_metrics      metrics of the broker role
image_statistics    the source of controller_metrics, collected on the event thread
broker_statistics   the source of the metrics of the broker role
logs                log format
"""
