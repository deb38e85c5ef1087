"""SASL exchanges as state machines: each takes a token and returns the next one.

exchange.py      the interface of the server's side, and what an exchange proves
plain.py         PLAIN (RFC 4616)
scram.py         SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802), delegation tokens included
oauth_bearer.py  OAUTHBEARER (RFC 7628)
jwt_validator.py verification of signed tokens
settings.py      the mechanisms of a listener and the login of a client
"""
