"""A parser for Java-style ``.properties`` files. It follows ``java.util.Properties.load``.

    # comment, as with !                    name=text, name: text and name text are equivalent
    name = a long text \\                    an odd number of trailing backslashes continues the
           in two lines                     line; leading blanks of the next line are dropped
    \\t \\n \\r \\f \\u20ac                      escapes; any other escaped character is itself

Blanks are the space, the tab and the form feed.  Lines end with LF, CR or CRLF.  If a name occurs
twice, the last text wins, as in Java, but the duplicate is reported, because it is probably a
mistake.  Files are ISO-8859-1, as in Kafka; other characters are written with ``\\u``.  One
difference: if the last line is a lone backslash, Java finds an empty name, this parser finds
nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
# The name ends at the first unescaped blank or separator. At most one separator is consumed.
_NAME_AND_VALUE = re.compile(
    r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<text>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u(?P<digits>[0-9A-Fa-f]{4})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(Exception):
    """The text is not valid properties syntax. The message starts with the source and the line."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The content of a file: the text of each name, and the line numbers where the name occurs."""

    values: Mapping[str, str]
    line_numbers: Mapping[str, tuple[int, ...]]

    @property
    def duplicates(self) -> dict[str, tuple[int, ...]]:
        """Names that occur more than once. The last line wins."""
        return {name: lines for name, lines in self.line_numbers.items() if len(lines) > 1}


def load(path: Path) -> Properties:
    return parse(path.read_bytes().decode("iso-8859-1"), source=str(path))


def parse(raw: str, *, source: str = "properties") -> Properties:
    """Parse ``raw``. Error messages call the text by the name ``source``, usually a file name."""
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
    """Yield each logical line, continuations joined, with the number of its first line."""
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
    # Java's characters are UTF-16: two escapes that form a surrogate pair are one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescape_match(escape: re.Match[str]) -> str:
    if escape["digits"]:
        return chr(int(escape["digits"], 16))
    if escape["letter"] == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return _LETTERS.get(escape["letter"], escape["letter"])
