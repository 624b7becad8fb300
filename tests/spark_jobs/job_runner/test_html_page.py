"""The page: well-formed, by itself, safe against what stands in keys, and its charts to scale."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from odradek.spark_jobs.running.charts import COLOURS, REST
from odradek.spark_jobs.running.html_page import ROWS_MAX, html_page
from odradek.spark_jobs.running.result import Chart, Shape, Table

HOSTILE = b"</td><script src='http://evil.example/x.js'></script>\x00"
VOID = {"meta"}
START_US = 1_700_000_000_000_000


def rates(series, values):
    return pa.table(
        {
            "topic": [name for name in series for _ in values],
            "start": pa.array(
                [START_US + 60_000_000 * at for _ in series for at in range(len(values))],
                pa.timestamp("us", "UTC"),
            ),
            "recordsPerSecond": [float(value) for _ in series for value in values],
        }
    )


LINES = Chart("Records a second", Shape.LINES, "start", "recordsPerSecond", "topic")


def page_of(*tables):
    return html_page(tables, title="A <title>", about="/var/lib/kafka")


def lines_page(series=("a", "b"), values=(0, 50, 100)):
    return page_of(Table("rates", "Rates", rates(series, values), [LINES]))


def pictures(page):
    """The charts, parsed as XML."""
    figures = re.findall(r"</figcaption>\n(<svg.*?</svg>)", page, re.DOTALL)
    return [ElementTree.fromstring(figure) for figure in figures]


class Read(HTMLParser):
    """What a browser would have of a page: each tag closed, its links, its text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.links, self.texts = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        names = {"src", "href", "srcset", "data", "action", "xlink:href"}
        self.links += [value for name, value in attributes if name in names]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def test_every_tag_is_closed_and_nothing_comes_from_elsewhere():
    keys = pa.table({"key": [HOSTILE, b"b"], "records": [3, 1]})
    bars = Chart("Keys", Shape.BARS, "key", "records")
    page = page_of(
        Table("keys", "Keys", keys, [bars], note="a < b"),
        Table("rates", "Rates", rates(["a"], [1, 2]), [LINES]),
    )
    read = Read(page)
    assert read.open == []
    assert read.links == []
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(read.tags)
    assert "@import" not in page
    assert "url(" not in page
    assert "A <title>" in read.texts
    assert any("</td><script" in text for text in read.texts)
    assert "\x00" not in page


def test_there_is_a_dark_side():
    page = lines_page()
    assert "color-scheme: light dark" in page
    light, dark = re.findall(r":root \{[^}]*--paper: (#\w+)", page)[:2]
    assert light != dark
    colours = set(re.findall(r"var\((--\w+)\)", page))
    for root in re.findall(r":root \{([^}]*)\}", page)[:2]:
        assert colours <= set(re.findall(r"(--\w+):", root))


def test_a_line_is_to_scale():
    (picture,) = pictures(lines_page())
    paths = [each.get("d") for each in picture.iter() if each.tag.endswith("path")]
    assert len(paths) == 2
    points = [tuple(map(float, point)) for point in re.findall(r"([\d.]+) ([\d.]+)", paths[0])]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y0 - y1 == pytest.approx(y1 - y2)
    grid = sorted(float(each.get("y1")) for each in picture.iter() if each.get("class") == "grid")
    assert (grid[0], grid[-1]) == (y2, y0)


def test_each_line_and_bar_says_what_it_stands_for():
    (picture,) = pictures(lines_page())
    titles = [each.text for each in picture.iter() if each.tag.endswith("title")]
    assert "a, 2023-11-14 22:14:20: 50" in titles
    labels = [each.text for each in picture.iter() if each.tag.endswith("text")]
    assert {"0", "100"} <= set(labels)
    assert any(re.fullmatch(r"22:1\d:\d\d", label) for label in labels)


def test_of_too_many_lines_the_least_become_one():
    names = [f"t{number}" for number in range(COLOURS + 3)]
    page = lines_page(names, (1, 2))
    (picture,) = pictures(page)
    assert sum(each.tag.endswith("path") for each in picture.iter()) == COLOURS
    assert REST in Read(page).texts


def test_bars_are_as_long_as_their_values():
    keys = pa.table({"topic": ["a", "a", "b"], "key": ["x", "y", "z"], "records": [8, 4, 100]})
    chart = Chart("Keys", Shape.BARS, "key", "records", only=("topic", "a"))
    (picture,) = pictures(page_of(Table("keys", "Keys", keys, [chart])))
    widths = [float(each.get("width")) for each in picture.iter() if each.tag.endswith("rect")]
    assert len(widths) == 2
    assert widths[0] == pytest.approx(2 * widths[1])


def test_nothing_to_be_drawn_is_no_figure():
    page = page_of(Table("rates", "Rates", rates([], []), [LINES]))
    assert "<figure>" not in page
    assert "None." in Read(page).texts


def test_one_row_is_a_list_of_figures_and_very_many_are_folded_up_and_cut():
    one = page_of(Table("total", "Total", pa.table({"diskBytes": [1500]})))
    assert Read(one).tags.count("dd") == 1
    many = page_of(Table("all", "All", pa.table({"n": range(ROWS_MAX + 7)})))
    assert Read(many).tags.count("tr") == ROWS_MAX + 1
    assert "7 more rows are not shown." in Read(many).texts
    assert Read(many).tags.count("details") == 1
    assert "details" not in Read(one).tags
