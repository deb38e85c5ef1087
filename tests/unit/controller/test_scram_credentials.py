from __future__ import annotations

from base64 import b64decode
from typing import NoReturn

import pytest

from quorumd.controller.scram_credentials import parse_credential
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord


def no_salt() -> NoReturn:
    raise AssertionError("a salt was given")


def test_example_of_rfc_7677() -> None:
    """User `user`, password `pencil`: its client proof and server signature follow from these keys."""
    salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
    found = parse_credential(f"SCRAM-SHA-256=[name=user,password=pencil,salt={salt}]", no_salt)
    assert found == UserScramCredentialRecord(
        "user",
        1,
        b64decode(salt),
        b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
        b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
        4096,
    )


def test_salted_password_gives_the_same_credential() -> None:
    salted = "xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0="
    given = (
        f'SCRAM-SHA-256=[name=user,iterations=4096,salt="W22ZaJ0SNY7soEsUEjb6gQ==",saltedpassword="{salted}"]'
    )
    assert parse_credential(given, no_salt) == parse_credential(
        "SCRAM-SHA-256=[name=user,password=pencil,salt=W22ZaJ0SNY7soEsUEjb6gQ]", no_salt
    )


def test_missing_salt_is_generated() -> None:
    found = parse_credential(
        "SCRAM-SHA-512=[name=alice,password=alice-secret,iterations=8192]", lambda: b"new"
    )
    assert (found.mechanism, found.salt, found.iterations, len(found.stored_key)) == (2, b"new", 8192, 64)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_bounds_of_iterations_are_accepted(iterations: int) -> None:
    found = parse_credential(f"SCRAM-SHA-256=[name=a,password=p,iterations={iterations}]", lambda: b"s")
    assert found.iterations == iterations


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice", "expected MECHANISM="),
        ("SCRAM-SHA-256=name=alice,password=p", "expected MECHANISM="),
        ("SCRAM-SHA-1=[name=alice,password=p]", "'SCRAM-SHA-1' is not supported"),
        ("SCRAM-SHA-256=[password=p]", "name is missing"),
        ("SCRAM-SHA-256=[name=alice]", "either password or saltedpassword"),
        ("SCRAM-SHA-256=[name=alice,password=p,saltedpassword=YCE=]", "either password or saltedpassword"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=YCE=]", "salt is missing"),
        ("SCRAM-SHA-256=[name=alice,password=p,iterations=4095]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=p,iterations=99999999999]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=p,salt=?]", "salt: expected base64"),
        ("SCRAM-SHA-256=[name=alice,name=bob]", "duplicate 'name'; expected"),
        ("SCRAM-SHA-256=[name=alice,age=7]", "^'age'; expected"),
        ("SCRAM-SHA-256=[name=alice,password]", "^'password' has no '='; expected"),
        ('SCRAM-SHA-256=[name="",password=p]', "name is missing"),
        ("SCRAM-SHA-256=[name=alice,password=p,colour=red]", "'colour'"),
        ("SCRAM-SHA-256=[name=alice,password=p,name=bob]", "'name'"),
        ("SCRAM-SHA-256=[name=alice,secret]", "'secret' has no '='"),
    ],
)
def test_invalid_credential_is_rejected(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_credential(text, lambda: b"salt")
