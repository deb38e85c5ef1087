"""Metadata decisions, pure: the image of the cluster and what a request makes of it.

cluster_image   what the records so far add up to; every change returns how to undo it
image_records   the image as records again: what a snapshot is made of
configs         DescribeConfigs and IncrementalAlterConfigs: validation and the records they need
"""
