"""Records as lines, there and back."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.cli.record_lines import Record, Template, from_json, json_line

contents = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
records = st.builds(
    Record,
    value=contents,
    key=contents,
    headers=st.lists(st.tuples(st.text(max_size=5), contents), max_size=3),
    partition=st.none() | st.integers(0, 100),
    timestamp=st.none() | st.integers(0, 1 << 42),
)


@given(records)
def test_what_is_written_as_json_is_read_back(record):
    line = json_line(replace(record, topic="t", offset=7))
    assert line.count(b"\n") == 1
    assert from_json(line) == record


@given(st.binary(max_size=20))
def test_bytes_that_are_no_text_are_printed_as_they_are(value):
    assert Template("<{value}>").line(Record(value)) == b"<" + value + b">\n"


def test_null_is_nothing_in_text():
    record = Record(None, headers=[("h", None)])
    assert Template("{key}|{value}|{headers}").line(record) == b"||h=\n"


def test_any_json_may_be_a_value():
    assert from_json(b'{"value": {"a": [1]}}').value == b'{"a": [1]}'
