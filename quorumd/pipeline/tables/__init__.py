"""The tables of the pipeline: names, types and meaning of their columns, and rows as text."""
