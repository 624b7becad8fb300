"""The reader of .properties files, compared with what the reader of Java 17 made of each text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.properties import PropertiesError, load, parse

PARSED_BY_JAVA = {
    # separators
    "a=b": {"a": "b"},
    "a:b": {"a": "b"},
    "a b": {"a": "b"},
    "a\tb": {"a": "b"},
    "a\fb": {"a": "b"},
    "  a = b ": {"a": "b "},
    "a=b=c": {"a": "b=c"},
    "a:=b": {"a": "=b"},
    "a =: b": {"a": ": b"},
    "a  :  = b": {"a": "= b"},
    "key with spaces": {"key": "with spaces"},
    "a": {"a": ""},
    "a=": {"a": ""},
    "=b": {"": "b"},
    " : b": {"": "b"},
    # comments
    "# c\na=b": {"a": "b"},
    "  ! c\na=b": {"a": "b"},
    "a=b # c": {"a": "b # c"},
    "# c\\\na=b": {"a": "b"},
    "a=b\\\n# c": {"a": "b# c"},
    "   \\\n  # c=1": {},
    # lines
    "": {},
    "\n": {},
    "a=1\rb=2": {"a": "1", "b": "2"},
    "a=1\r\r\nb=2": {"a": "1", "b": "2"},
    "a=1\n\n \t\f\nb=2": {"a": "1", "b": "2"},
    "a=b\vc": {"a": "b\vc"},
    "a=b\x85c": {"a": "b\x85c"},
    "a=b\u2028c": {"a": "b\u2028c"},
    "\xa0a=b": {"\xa0a": "b"},
    # continuation
    "a=b\\\n  c": {"a": "bc"},
    "a=b\\\r\n  c\r\nd=e": {"a": "bc", "d": "e"},
    "a=b\\\r\rc=d": {"a": "b", "c": "d"},
    "a=b\\\\\nc=d": {"a": "b\\", "c": "d"},
    "a=b\\\\\\\nc=d": {"a": "b\\c=d"},
    "a=b\\": {"a": "b"},
    "a=b\\\n": {"a": "b"},
    "a\\\n  =b": {"a": "b"},
    "a\\\nb": {"ab": ""},
    "a \\\n b": {"a": "b"},
    "\\\n a=b": {"a": "b"},
    "a=b\\\n\\\n c": {"a": "bc"},
    "a=b\\\n\n c=d": {"a": "b", "c": "d"},
    "a=b\\\n  #c\\\n  d": {"a": "b#cd"},
    # escapes
    "a\\ b=c": {"a b": "c"},
    "a\\=b=c": {"a=b": "c"},
    "a\\:b:c": {"a:b": "c"},
    "a\\\\=b": {"a\\": "b"},
    "\\#a=b": {"#a": "b"},
    "a=\\t\\n\\r\\f": {"a": "\t\n\r\f"},
    "a=\\q\\0\\\"\\'\\U0041": {"a": "q0\"'U0041"},
    "a=\\  b": {"a": "  b"},
    "a=b\\ ": {"a": "b "},
    "a=\\u0041\\u00e9\\u20AC": {"a": "Aé€"},
    "\\u0061\\u003db=c": {"a=b": "c"},
    "a=\\ud83d\\ude00": {"a": "\U0001f600"},
    # names given twice
    "a=b\na=c": {"a": "c"},
}

REJECTED_BY_JAVA = [
    "a=\\u",
    "a=\\u004",
    "a=\\u00g1",
    "a=\\u+041",
    "a=\\u 041",
    "a=\\uuuu0041",
    "a=\\u12\\\n34\\u",
    "a=\\u\u0660\u0660\u0664\u0661",
]


@pytest.mark.parametrize(("source", "values"), PARSED_BY_JAVA.items())
def test_text_is_parsed_as_in_java(source, values):
    assert parse(source).values == values


@pytest.mark.parametrize("source", REJECTED_BY_JAVA)
def test_text_that_java_rejects_is_rejected(source):
    with pytest.raises(PropertiesError):
        parse(source)


def test_lone_backslash_at_the_end_is_ignored():
    assert parse("a=b\n\\").values == {"a": "b"}


def test_error_names_the_file_and_the_first_line_of_the_entry(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("# one\n\na=1\nb=2\\\n   \\u00x0\n")
    with pytest.raises(PropertiesError) as error:
        load(path)
    assert str(error.value) == f"{path}:4: \\u must be followed by four hexadecimal digits"


def test_name_given_twice_is_reported_with_its_lines():
    properties = parse("a=1\nb=2\n# a=3\na\\\n =4\n\nb=5\nc=6\na=7")
    assert properties.values == {"a": "7", "b": "5", "c": "6"}
    assert properties.duplicates == {"a": (1, 4, 9), "b": (2, 7)}


def test_name_given_once_is_not_a_duplicate():
    properties = parse("\\u0061=1\n\nb=2")
    assert properties.duplicates == {}
    assert properties.line_numbers == {"a": (1,), "b": (3,)}


def test_file_is_read_as_iso_8859_1_as_in_kafka(tmp_path):
    path = tmp_path / "server.properties"
    path.write_bytes(b"a=\xe9\xff\r\nb=\xc3\xa9")
    assert load(path).values == {"a": "\xe9\xff", "b": "\xc3\xa9"}


def test_long_run_of_backslashes_is_parsed_in_linear_time():
    assert parse("a=" + "\\\\" * 200_000 + "x").values == {"a": "\\" * 200_000 + "x"}


@given(st.dictionaries(st.text(), st.text()))
def test_fully_escaped_text_survives_a_round_trip(values):
    def escape(text):
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))

    source = "\n".join(f"{escape(name)}={escape(text)}" for name, text in values.items())
    assert parse(source).values == values


def values_or_error(source):
    try:
        return parse(source, source="here").values
    except PropertiesError as error:
        return str(error)


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0t"))
def test_any_text_is_parsed_or_rejected_with_its_position(source):
    outcome = values_or_error(source)
    assert isinstance(outcome, dict) or outcome.startswith("here:")
