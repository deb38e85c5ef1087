"""The commands of `quorumd pipeline`, one file per command; `group` assembles them."""
