"""The metadata that a broker acts on.

broker_metadata  the image of the committed metadata
metadata_delta   what each batch changed
"""
