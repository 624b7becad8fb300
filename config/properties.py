"""Java-style ``.properties`` files, read as ``java.util.Properties.load`` reads them.

    # comment, as with !                    name=text, name: text and name text mean the same
    name = a long text \\                    an odd number of backslashes ends: the line goes on,
           in two lines                     and the blanks before its continuation are dropped
    \\t \\n \\r \\f \\u20ac                      escapes; any other character stands for itself

Blanks are the space, the tab and the form feed; lines end with LF, CR or both.  A name given twice
has its last text, as in Java, but is reported, since the file's author meant something else.
Files are ISO-8859-1, as they are to Kafka; anything beyond it is written with ``\\u``.  (Where Java
finds an empty name in a last line that is a lone backslash, nothing is found here.)
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
# The name ends at the first blank or separator that no backslash precedes; one separator is eaten.
_NAME_AND_VALUE = re.compile(
    r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<text>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u(?P<digits>[0-9A-Fa-f]{4})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(Exception):
    """Text that no reader of properties accepts; says where."""


@dataclass(frozen=True, slots=True)
class Properties:
    """What a file says: each name's text, and the lines on which the name was given."""

    values: Mapping[str, str]
    line_numbers: Mapping[str, tuple[int, ...]]

    @property
    def duplicates(self) -> dict[str, tuple[int, ...]]:
        """Names given more than once; the last line is the one that counts."""
        return {name: lines for name, lines in self.line_numbers.items() if len(lines) > 1}


def load(path: Path) -> Properties:
    return parse(path.read_bytes().decode("iso-8859-1"), source=str(path))


def parse(raw: str, *, source: str = "properties") -> Properties:
    """``source`` is what an error calls the text: a file's name."""
    texts: dict[str, str] = {}
    lines: dict[str, tuple[int, ...]] = {}
    for line, content in _logical_lines(raw):
        match = _NAME_AND_VALUE.fullmatch(content)
        assert match is not None, content
        try:
            name, text = _unescape(match["name"]), _unescape(match["text"])
        except ValueError as error:
            raise PropertiesError(f"{source}:{line}: {error}") from error
        texts[name] = text
        lines[name] = (*lines.get(name, ()), line)
    return Properties(texts, lines)


def _logical_lines(raw: str) -> Iterator[tuple[int, str]]:
    """Each with the number of the line it begins on, its continuations joined to it."""
    content, begin = "", 0
    for number, line in enumerate(_LINE_END.split(raw), start=1):
        stripped = line.lstrip(_BLANKS)
        if not content:
            begin = number
            if not stripped or stripped[0] in "#!":
                continue
        if _is_continued(stripped):
            content += stripped[:-1]
        else:
            yield begin, content + stripped
            content = ""
    if content:
        yield begin, content


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(escaped: str) -> str:
    if "\\" not in escaped:
        return escaped
    text = _ESCAPE.sub(_unescape_match, escaped)
    # Java's characters are UTF-16: two escapes that form a pair are one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescape_match(escape: re.Match[str]) -> str:
    if escape["digits"]:
        return chr(int(escape["digits"], 16))
    if escape["letter"] == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return _LETTERS.get(escape["letter"], escape["letter"])
