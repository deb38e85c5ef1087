"""The image of the committed metadata that a broker acts on, and the changes of each batch."""
