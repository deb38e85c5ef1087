"""Batches of a log as numpy arrays.

batches     batches of a piece of a file, faults, and how to resume after a fault
chain       where batches begin, by the lengths of those before
search      where batches begin after damage, by what they look like
crcs        the CRCs of many small batches in a few calls
digests     a piece of a segment to rows of the level `audit` of the source
"""
