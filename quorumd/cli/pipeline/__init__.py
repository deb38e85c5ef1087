"""The commands of `quorumd pipeline`, a file each; `group` puts them together."""
