"""Metrics and logs of a node.

metrics         the list of all metrics and the Prometheus collector that reads them when scraped
node_metric     one metric and how it is read
controller_metrics  metrics of brokers, topics and partitions
image_statistics    their source, collected on the event thread
logs            log format
"""
