"""Kafka's security model as decisions: who a client is, and what it may do.

principals            the principal of a client certificate
credentials           the credentials of users: SCRAM credentials and delegation tokens
tokens                the secret part of a delegation token (KIP-48)
sasl/                 SASL exchanges, as state machines of both sides
tls                   the TLS settings of one listener
acls                  access control entries, their index, and filters
authorizer            decides by the ACLs, with the rules of Kafka's StandardAuthorizer
forwarded_principals  requests in Envelopes (KIP-590), and the principals in them
"""
