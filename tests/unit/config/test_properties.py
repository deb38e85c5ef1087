"""Java's properties format: ends of keys, comments and backslashes."""

import pytest

from quorumd.config.properties import Property, parse_properties


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("  a \t = \t b  ", "a", "b"),
        ("a = = b", "a", "= b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        (r"a\=b=c", "a=b", "c"),
        (r"a\ b:c", "a b", "c"),
        (r"a=\t\u00e9\q", "a", "\té" + "q"),
        ("a=b#c", "a", "b#c"),
        (r"a=c:\\x", "a", r"c:\x"),
    ],
)
def test_property_is_parsed(text: str, key: str, value: str) -> None:
    assert parse_properties(text) == [Property(key, value, 1)]


def test_comments_and_empty_lines_count_as_lines() -> None:
    assert parse_properties("# a=1\n\n  ! b=2\r\nc=3\rd=4\n") == [
        Property("c", "3", 4),
        Property("d", "4", 5),
    ]


def test_continued_property_keeps_first_line_number() -> None:
    text = "a=1,\\\n    2,\\\n\t3\nb=ends\\\\\nc=last\\"
    assert parse_properties(text) == [
        Property("a", "1,2,3", 1),
        Property("b", "ends\\", 4),
        Property("c", "last", 5),
    ]


def test_continuation_line_is_never_a_comment() -> None:
    assert parse_properties("a=1,\\\n#2") == [Property("a", "1,#2", 1)]


def test_invalid_escape_is_fault_of_its_line() -> None:
    (given,) = parse_properties("\n\na=\\u12g4")
    assert given.line == 3
    assert "\\u" in given.fault


def test_duplicate_key_is_kept_twice() -> None:
    assert [given.value for given in parse_properties("a=1\na=2")] == ["1", "2"]


def test_surrogate_pair_is_one_character_and_half_is_fault() -> None:
    whole, half = parse_properties("a=\\ud83d\\ude00\nb=x\\ude00")
    assert (whole.value, whole.fault) == ("\U0001f600", "")
    assert "surrogate pairs" in half.fault
