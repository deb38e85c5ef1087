"""`quorumd log`: inspect the files of a metadata log.

group  the command group, text and JSON
files  the contents of one file, piece by piece
rows   one row per record (jsonl, csv), with the decoder of the pipeline
"""
