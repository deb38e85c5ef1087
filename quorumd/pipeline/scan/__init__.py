"""Batches of a log as numpy arrays.

batches  batches of a piece of a file, faults, and how to resume after a fault
chain    starts of batches, from the lengths of the batches before them
search   starts of batches after damage, from the content of headers
crcs     the CRCs of many small batches in a few calls
digests  summaries of segments, as rows of the level `audit` of the source
"""
