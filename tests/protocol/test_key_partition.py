"""The coordinator partition of a key is the one that Java's String.hashCode gives."""

import pytest

from odradek.protocol.internal.key_partition import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
        ("ä", 228),
    ],
)
def test_hash_is_that_of_java_string_hash_code(text, code):
    # The emoji has two UTF-16 units: 31 * 0xd83d + 0xde00.
    assert java_string_hash(text) == code


def test_smallest_integer_hash_counts_as_0():
    assert partition_for("polygenelubricants", 50) == 0


def test_negative_hash_counts_as_its_absolute_value():
    assert java_string_hash("zzzzzz") == -685785664
    assert partition_for("zzzzzz", 50) == 14
