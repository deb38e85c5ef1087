"""The message generator behind scripts/generate_messages.py.

schema      the schema language as pydantic models; reads schema files
rules       checks beyond the models: ranges within ranges, tags without gaps, unique names
layout      the Python and wire layout of a schema: names, types, defaults, struct codes, sizes
source      lines of emitted code with their indentation
classes     emits the slotted classes
encoders    emits encode_vN
decoders    emits decode_vN
modules     assembles the module of a message, and the index of all modules
"""
