"""Integration tests of other projects, run against a broker of quorumd."""
