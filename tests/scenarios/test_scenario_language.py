"""The language of the scenarios: errors with their place, and wrong transcripts."""

from __future__ import annotations

import pytest

from tests.support.scenarios.language import ScenarioError, replay

STORY = "# A claim.\n\n> cluster 3\n> quietly start\n> elect 1\n"


def play(*commands: str) -> list[str]:
    """The events of the last command, after node 1 was elected."""
    lines = replay("story.txt", STORY + "".join(f"> {command}\n" for command in commands)).splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith("> "))
    return [line.strip() for line in lines[start + 1 :]]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("> cluster 3\n", "story.txt:1: begin with a comment"),
        ("# A claim.\n> cluster 3\n> dance 1\n", "story.txt:3: '> dance 1': no such command"),
        (STORY + "> crash 9\n", "story.txt:6: '> crash 9'"),
        (STORY + "> advance 5\n", "story.txt:6: '> advance 5': a time is a number with ms or s"),
        (STORY + "> advance\n", "story.txt:6: '> advance'"),
        (STORY + "> crash 1\n> propose 1 a\n", "story.txt:7: '> propose 1 a': node 1 is down"),
        (STORY + "> deliver 1->2\n", "story.txt:6: '> deliver 1->2': 1->2 is not held"),
        (STORY + "> quietly\n", "story.txt:6: '> quietly'"),
    ],
)
def test_error_names_file_and_line(text: str, place: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        replay("story.txt", text)
    assert str(caught.value).startswith(place)


def test_comments_and_blank_lines_are_kept_and_an_old_transcript_replaced() -> None:
    text = STORY + "  1       leads epoch 7\n\n# More of it.\n> status 2\n"
    played = replay("story.txt", text)
    assert "leads epoch 7" not in played
    assert "\n\n# More of it.\n> status 2\n" in played
    assert replay("story.txt", played) == played


def test_crash_loses_only_unflushed_data() -> None:
    lost = play("hold disk 1", "propose 1 a", "crash 1", "status 1")
    assert lost == ["1       down, log 1:voters 2:leader"]
    assert play("propose 1 a", "crash 1", "status 1") == ["1       down, log 1:voters 2:leader 2:a"]


def test_held_message_arrives_when_delivered_and_a_dropped_one_never() -> None:
    held = ("hold 1->2", "propose 1 a")
    assert "2       appends record 2; high watermark 2" in play(*held, "deliver 1->2")
    assert play(*held, "drop 1->2", "deliver 1->2") == []
    assert "2       appends record 2; high watermark 2" in play(*held, "release 1->2")
