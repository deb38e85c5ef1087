"""quorumd: Kafka's metadata quorum as one small daemon."""

__version__ = "0.1.0"
