"""Java's properties format: what ends a key, what is a comment, what a backslash does."""

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
def test_one_property(text: str, key: str, value: str) -> None:
    assert parse_properties(text) == [Property(key, value, 1)]


def test_comments_and_empty_lines_count_as_lines() -> None:
    assert parse_properties("# a=1\n\n  ! b=2\r\nc=3\rd=4\n") == [
        Property("c", "3", 4),
        Property("d", "4", 5),
    ]


def test_a_backslash_continues_a_line_and_the_property_keeps_its_first_line() -> None:
    text = "a=1,\\\n    2,\\\n\t3\nb=ends\\\\\nc=last\\"
    assert parse_properties(text) == [
        Property("a", "1,2,3", 1),
        Property("b", "ends\\", 4),
        Property("c", "last", 5),
    ]


def test_a_continued_line_that_looks_like_a_comment_is_none() -> None:
    assert parse_properties("a=1,\\\n#2") == [Property("a", "1,#2", 1)]


def test_a_broken_escape_is_a_fault_of_its_line() -> None:
    (given,) = parse_properties("\n\na=\\u12g4")
    assert given.line == 3
    assert given.fault == "four hexadecimal digits must follow \\u"


def test_a_key_given_twice_is_there_twice() -> None:
    assert [given.value for given in parse_properties("a=1\na=2")] == ["1", "2"]


def test_two_escapes_may_be_one_character_and_half_of_one_is_a_fault() -> None:
    whole, half = parse_properties("a=\\ud83d\\ude00\nb=x\\ude00")
    assert (whole.value, whole.fault) == ("\U0001f600", "")
    assert "surrogate pairs" in half.fault
