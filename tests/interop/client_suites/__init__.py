"""Integration tests of client libraries, run with a broker of quorumd."""
