"""The properties in the documentation are accepted without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.config.properties import parse_properties
from tests.support.documentation import PAGES, properties_examples

EXAMPLES = [(page, example) for page in PAGES for example in properties_examples(page)]
DEFAULTS = {
    "node.id": "1",
    "listeners": "CONTROLLER://10.0.0.1:9192",
    "quorum.voters": "1@10.0.0.1:9192",
    "log.dirs": "data",
}
"""What an example may leave out."""


REFERENCED = {
    "/etc/quorumd/cluster.properties": "voters=1@10.0.0.1:9192\n",
    "/run/node/id": "1",
}
"""Content of the files that examples refer to."""


def test_documentation_has_properties() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_documented_properties_are_accepted(page: str, example: str, tmp_path: Path) -> None:
    keys = {each.key for each in parse_properties(example)}
    if keys & {"controller.quorum.voters", "bootstrap.servers"}:
        keys.add("quorum.voters")
    added = [f"{key}={value}" for key, value in DEFAULTS.items() if key not in keys]
    for path, content in REFERENCED.items():
        example = example.replace(str(Path(path).parent), str(tmp_path))
        (tmp_path / Path(path).name).write_text(content)
    file = tmp_path / "node.properties"
    file.write_text("\n".join([example, *added]))
    settings = load(str(file), {"LEVEL": "DEBUG"})
    assert settings.warnings() == ()
    assert settings.log_level == ("DEBUG" if "${env:LEVEL}" in example else "INFO")
