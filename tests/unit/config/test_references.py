"""References in values: Kafka's three config providers, their restrictions, and unresolvable references."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quorumd.config.properties import parse_properties
from quorumd.config.references import CLASSES, Providers, is_reference

FILE, DIRECTORY, ENVIRONMENT = CLASSES


def providers(text: str = "", **environment: str) -> Providers:
    made = Providers(environment)
    assert made.declare(parse_properties(text)) == []
    return made


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "some.properties").write_text("user = alice\\u0021\npassword: hunter2\nbad=\\u12\n")
    (tmp_path / "token").write_text("t-1\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    return tmp_path


def test_references_to_file_directory_and_variable_are_resolved(secrets: Path) -> None:
    value = f"<${{file:{secrets}/some.properties:user}}|${{dir:{secrets}:token}}|${{env:HOME_TOWN}}>"
    assert is_reference(value)
    assert providers(HOME_TOWN="Oslo").resolve(value) == "<alice!|t-1|Oslo>"


@pytest.mark.parametrize("value", ["", "plain", "$x", "${x}", "a$b{c:d}"])
def test_text_without_reference_is_unchanged(value: str) -> None:
    assert not is_reference(value)
    assert providers().resolve(value) == value


def test_providers_may_be_renamed(secrets: Path) -> None:
    text = (
        f"config.providers=vault,file\nconfig.providers.vault.class={FILE}\n"
        f"config.providers.file.class={FILE}\nnode.id=1\n"
    )
    value = f"${{vault:{secrets}/some.properties:password}}"
    assert providers(text).resolve(value) == "hunter2"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${vault:x:y}", "unknown provider 'vault'; expected one of file, dir, env"),
        ("${file:DIRECTORY/none:y}", "cannot be read: No such file or directory"),
        ("${file:DIRECTORY/some.properties:none}", "the file has no such key"),
        ("${file:DIRECTORY/some.properties:bad}", "the value in the file has an invalid escape"),
        ("${file:DIRECTORY/binary:y}", "not UTF-8 text"),
        ("${dir:DIRECTORY:../x}", "the key is not a file name"),
        ("${env:NONE}", "the environment variable is not set"),
    ],
)
def test_unresolvable_reference_is_reported(secrets: Path, reference: str, reason: str) -> None:
    reference = reference.replace("DIRECTORY", str(secrets))
    with pytest.raises(ValueError, match=re.escape(reason)) as refusal:
        providers().resolve(f"before {reference} after")
    assert str(refusal.value) == f"{reference}: {reason}"


def test_provider_restrictions_are_enforced(secrets: Path) -> None:
    made = providers(
        f"config.providers=file,dir,env\nconfig.providers.file.class={FILE}\n"
        f"config.providers.dir.class={DIRECTORY}\nconfig.providers.env.class={ENVIRONMENT}\n"
        f"config.providers.file.param.allowed.paths=/elsewhere,{secrets}\n"
        "config.providers.dir.param.allowed.paths=/elsewhere\n"
        "config.providers.env.param.allowlist.pattern=Q_.*\n",
        Q_A="1",
        HOME="/root",
    )
    assert made.resolve(f"${{file:{secrets}/some.properties:password}}") == "hunter2"
    assert made.resolve("${env:Q_A}") == "1"
    refused = (f"${{file:{secrets}/../x:y}}", f"${{dir:{secrets}:token}}", "${env:HOME}")
    for reference in refused:
        with pytest.raises(ValueError, match="does not allow this"):
            made.resolve(reference)


@pytest.mark.parametrize(
    ("text", "key", "wrong"),
    [
        ("config.providers=vault", "config.providers", "vault has no class"),
        (
            "config.providers=v\nconfig.providers.v.class=com.V",
            "config.providers.v.class",
            "not a supported provider",
        ),
        (
            "config.providers.env.param.allowlist.pattern=(",
            "config.providers.env.param.allowlist.pattern",
            "regular",
        ),
        ("config.providers.env.param.x=(", "config.providers.env.param.x", "not a parameter of a provider"),
    ],
)
def test_invalid_declaration_is_reported(text: str, key: str, wrong: str) -> None:
    ((given, reported, allowed),) = Providers({}).declare(parse_properties(text))
    assert given.key == key
    assert wrong in reported
    assert allowed
