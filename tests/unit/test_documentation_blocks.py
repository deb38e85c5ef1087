"""Every example in the documentation is of a kind that a test verifies, and outputs are compared as intended."""

from __future__ import annotations

import pytest

from tests.support.documentation import (
    PAGES,
    Block,
    Step,
    blocks,
    documented_steps,
    is_properties,
    python_examples,
    steps,
)
from tests.support.documented_output import compare, documented_outputs

LANGUAGES = {
    ("docs/contributing-examples.md", "diff"): "tests/unit/test_contributing_examples.py",
    ("CONTRIBUTING.md", "toml"): "tests/unit/test_contributing_examples.py",
    ("docs/pipeline.md", "python"): "tests/pipeline/test_notebook_example.py",
}
"""Fenced blocks, with the test that verifies them."""

OTHERS = {
    "export QUORUMD_BOOTSTRAP_SERVER": "set by tests/shell/test_documentation_runs.py",
    "for n in 1 2 3": "tests/shell/test_secure_quorum.py starts these nodes",
}
"""Beginnings of blocks of no kind, with the reason or the test."""

TABLE = """\
Id  State    Epoch  Listeners
 1  running      5  PLAINTEXT://10.0.1.1:9092
 2  running     17  PLAINTEXT://10.0.1.2:9092
"""


def is_verified(block: Block) -> bool:
    """Whether some test verifies the block."""
    if block.language:
        return (block.page, block.language) in LANGUAGES
    first = next(steps(block), None)
    return (
        (first is not None and first.place == block.place)
        or block.text in python_examples(block.page)
        or is_properties(block.text)
        or block.text.startswith(tuple(OTHERS))
    )


def difference(documented: str, printed: str, command: str = "quorumd brokers list") -> str:
    return compare(Step("docs/brokers.md:7", command, True, documented), printed)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_commands_or_verified_otherwise(page: str) -> None:
    assert [block.place for block in blocks(page) if not is_verified(block)] == []


@pytest.mark.parametrize("beginning", OTHERS)
def test_other_blocks_are_in_the_documentation(beginning: str) -> None:
    assert any(block.text.startswith(beginning) for page in PAGES for block in blocks(page))


def test_text_without_a_command_is_found() -> None:
    assert not is_verified(Block("README.md", 1, "", "stopped: node 0\n"))
    assert not is_verified(Block("README.md", 1, "", "stopped: node 0\n$ quorumd cluster down\n"))
    assert not is_verified(Block("README.md", 1, "json", "{}\n"))
    assert is_verified(Block("README.md", 1, "", "$ quorumd cluster down\nstopped: node 0\n"))


def test_outputs_are_found_behind_their_commands() -> None:
    block = Block(
        "docs/x.md", 10, "", "$ quorumd a --b \\\n    c   # why\nout\n\nput\n\nquorumd d\n$ make e  # f\n"
    )
    assert list(steps(block)) == [
        Step("docs/x.md:10", "quorumd a --b c", True, "out\n\nput\n"),
        Step("docs/x.md:16", "quorumd d", False, ""),
        Step("docs/x.md:17", "make e", True, ""),
    ]
    (found,) = documented_outputs("quorumd quorum describe --bootstrap-server 127.0.0.1:9392")
    assert "LeaderEpoch:" in found.output
    assert len(documented_steps()) > 40


def test_values_of_a_run_and_widths_of_columns_are_not_compared() -> None:
    printed = TABLE.replace("10.0.1.", "127.0.0.").replace("17", "123456").replace("  running", "    running")
    assert difference(TABLE, printed) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("State", "Status"),
        ("Epoch", "BrokerEpoch"),
        ("17", "none"),
        (" 2 ", " 3 "),
        ("2  running", "2  fenced"),
        ("PLAINTEXT://10.0.1.1:9092", "10.0.1.1:9092"),
        (TABLE.splitlines(keepends=True)[2], ""),
    ],
)
def test_other_differences_are_shown(old: str, new: str) -> None:
    shown = difference(TABLE, TABLE.replace(old, new))
    assert "docs/brokers.md:7" in shown
    assert "\n-" in shown
    assert TABLE.replace(old, new) in shown


def test_further_lines_may_be_left_out() -> None:
    assert difference("Id\n...\n", "Id\n1\n2\n") == ""
    assert difference("Id\n...\n", "Ids\n1\n2\n") != ""


def test_order_of_nodes_is_not_compared_but_their_roles_are() -> None:
    documented = "Node  Pid  Role\n0  11  leader\n1  12  follower\n2  13  follower\n"
    up = "quorumd cluster up"
    assert (
        difference(documented, "Node  Pid  Role\n0  21  follower\n1  22  follower\n2  23  leader\n", up) == ""
    )
    assert "-<number>  <number>  leader" in difference(documented, documented.replace("leader", "voter"), up)
