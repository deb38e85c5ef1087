"""Profiles: the ranges from which a seed draws its options.

`profile` defines what a profile has, `quorum`, `brokers`, `clients` and `unmixed` list profiles by subject, `mixes`
combines all but the last two kinds, `registry` finds them by name, `draw` draws the options of a seed. The order of
the draws is part of a seed's meaning: append new draws at the end or give them a stream of their own.
"""
