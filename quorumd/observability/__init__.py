"""What a node tells people and machines that watch it.

metrics         every metric in one list; a Prometheus collector that reads NodeStatistics when scraped
node_metric     what one metric is, and what else it is read from
controller_metrics  those of brokers, topics and partitions
image_figures   what these are read from, counted on the event thread
logs            log format
"""
