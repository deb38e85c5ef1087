"""The message generator behind scripts/generate_messages.py.

schema      the schema language as pydantic models, and how a file is read
rules       what the models cannot see: versions within versions, tags without gaps, names used once
layout      what a schema means in Python and on the wire: names, types, defaults, struct codes, sizes
source      lines of emitted code with their indentation
classes     emits the slotted classes
encoders    emits encode_vN
decoders    emits decode_vN
modules     puts a module and the index of all modules together
"""
