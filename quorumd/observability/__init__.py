"""What a node tells people and machines that watch it.

metrics         every metric in one list; a Prometheus collector that reads NodeStatistics when scraped
logs            log format
"""
