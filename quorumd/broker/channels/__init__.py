"""The connections of a broker, as protocols that a node implements: to the active controller and to other brokers."""
