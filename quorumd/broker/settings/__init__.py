"""The settings of a broker and of its parts, with Kafka's defaults."""
