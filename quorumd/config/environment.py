"""Settings from the environment: QUORUMD_ and the key in capitals, with `_` for each `.`.

`QUORUMD_NODE_ID=3` sets `node.id=3`, and overrides the file even if that has another key of the setting
(`broker.id`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorumd.config.properties import Property

PREFIX = "QUORUMD_"
OTHERS = ("QUORUMD_BOOTSTRAP_SERVER", "QUORUMD_COMMAND_CONFIG", "QUORUMD_COMPILE", "QUORUMD_PASSWORD")
"""Variables that are not settings but options of commands and of the package build."""


def variable_name(key: str) -> str:
    """The name of the variable that overrides a key."""
    return PREFIX + key.upper().replace(".", "_")


def overrides(keys: Iterable[str], environment: Mapping[str, str]) -> list[Property]:
    """The overrides of `keys` in the environment, as properties whose origin is the variable."""
    return [
        Property(key, environment[variable], 0, origin=variable)
        for key in keys
        for variable in (variable_name(key),)
        if variable in environment
    ]


def without_overrides(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without overrides, for a node configured only by its file."""
    return {
        name: value for name, value in environment.items() if not name.startswith(PREFIX) or name in OTHERS
    }


def misspelled(keys: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Warnings about variables whose name resembles an override. Others with the prefix QUORUMD_ are ignored:
    Kubernetes sets such variables for a service named quorumd."""
    known = [variable_name(key) for key in keys]
    strange = [name for name in environment if name.startswith(PREFIX) and name not in (*known, *OTHERS)]
    if not strange:
        return []
    from difflib import get_close_matches  # slow to import, and rarely needed

    close = {name: get_close_matches(name, known, n=1, cutoff=0.9) for name in sorted(strange)}
    return [
        f"environment variable {name} is not a setting; did you mean {found[0]}?"
        for name, found in close.items()
        if found
    ]
