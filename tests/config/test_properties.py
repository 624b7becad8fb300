"""The reader of .properties files, against what Java 17's own reader made of each text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.properties import PropertiesError, load, parse

READ_BY_JAVA = {
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

REFUSED_BY_JAVA = [
    "a=\\u",
    "a=\\u004",
    "a=\\u00g1",
    "a=\\u+041",
    "a=\\u 041",
    "a=\\uuuu0041",
    "a=\\u12\\\n34\\u",
    "a=\\u\u0660\u0660\u0664\u0661",
]


@pytest.mark.parametrize(("written", "texts"), READ_BY_JAVA.items())
def test_text_means_what_it_means_to_java(written, texts):
    assert parse(written).texts == texts


@pytest.mark.parametrize("written", REFUSED_BY_JAVA)
def test_text_that_java_refuses_is_refused(written):
    with pytest.raises(PropertiesError):
        parse(written)


def test_a_lone_backslash_at_the_end_is_nothing():
    assert parse("a=b\n\\").texts == {"a": "b"}


def test_an_error_names_the_file_and_the_line_where_the_entry_begins(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("# one\n\na=1\nb=2\\\n   \\u00x0\n")
    with pytest.raises(PropertiesError) as refusal:
        load(path)
    assert str(refusal.value) == f"{path}:4: \\u must be followed by four hexadecimal digits"


def test_a_name_given_twice_is_reported_with_its_lines():
    properties = parse("a=1\nb=2\n# a=3\na\\\n =4\n\nb=5\nc=6\na=7")
    assert properties.texts == {"a": "7", "b": "5", "c": "6"}
    assert properties.duplicates == {"a": (1, 4, 9), "b": (2, 7)}


def test_a_name_given_once_is_no_duplicate():
    properties = parse("\\u0061=1\n\nb=2")
    assert properties.duplicates == {}
    assert properties.lines == {"a": (1,), "b": (3,)}


def test_a_file_is_iso_8859_1_as_it_is_to_kafka(tmp_path):
    path = tmp_path / "server.properties"
    path.write_bytes(b"a=\xe9\xff\r\nb=\xc3\xa9")
    assert load(path).texts == {"a": "\xe9\xff", "b": "\xc3\xa9"}


def test_a_long_run_of_backslashes_costs_no_more_than_its_length():
    assert parse("a=" + "\\\\" * 200_000 + "x").texts == {"a": "\\" * 200_000 + "x"}


@given(st.dictionaries(st.text(), st.text()))
def test_whatever_is_escaped_throughout_comes_back(texts):
    def escaped(text):
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))

    written = "\n".join(f"{escaped(name)}={escaped(text)}" for name, text in texts.items())
    assert parse(written).texts == texts


def texts_or_refusal(written):
    try:
        return parse(written, source="here").texts
    except PropertiesError as refusal:
        return str(refusal)


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0t"))
def test_any_text_is_either_read_or_refused_with_its_place(written):
    outcome = texts_or_refusal(written)
    assert isinstance(outcome, dict) or outcome.startswith("here:")
