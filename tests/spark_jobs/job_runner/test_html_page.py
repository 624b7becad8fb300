"""The HTML page is well-formed, self-contained and escaped, and its charts are to scale."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from odradek.spark_jobs.job_runner.charts import COLOURS_MAX, OTHERS
from odradek.spark_jobs.job_runner.html_page import ROWS_MAX, render_page
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Table

HOSTILE = b"</td><script src='http://evil.example/x.js'></script>\x00"
VOID = {"meta"}
START_US = 1_700_000_000_000_000


def rates(series, values):
    return pa.table(
        {
            "topic": [name for name in series for _ in values],
            "start": pa.array(
                [START_US + 60_000_000 * index for _ in series for index in range(len(values))],
                pa.timestamp("us", "UTC"),
            ),
            "recordsPerSecond": [float(value) for _ in series for value in values],
        }
    )


LINES = Chart("Records a second", ChartType.LINES, "start", "recordsPerSecond", "topic")


def page_of(*tables):
    return render_page(tables, title="A <title>", subtitle="/var/lib/kafka")


def lines_page(series=("a", "b"), values=(0, 50, 100)):
    return page_of(Table("rates", "Rates", rates(series, values), [LINES]))


def charts(page):
    """Return the charts, parsed as XML."""
    figures = re.findall(r"</figcaption>\n(<svg.*?</svg>)", page, re.DOTALL)
    return [ElementTree.fromstring(figure) for figure in figures]


class ParsedPage(HTMLParser):
    """Collects the tags, links and texts of a page and checks that every tag is closed."""

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


def test_page_is_well_formed_and_loads_nothing():
    keys = pa.table({"key": [HOSTILE, b"b"], "records": [3, 1]})
    bars = Chart("Keys", ChartType.BARS, "key", "records")
    page = page_of(
        Table("keys", "Keys", keys, [bars], note="a < b"),
        Table("rates", "Rates", rates(["a"], [1, 2]), [LINES]),
    )
    parsed = ParsedPage(page)
    assert parsed.open == []
    assert parsed.links == []
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(parsed.tags)
    assert "@import" not in page
    assert "url(" not in page
    assert "A <title>" in parsed.texts
    assert any("</td><script" in text for text in parsed.texts)
    assert "\x00" not in page


def test_page_has_a_dark_colour_scheme():
    page = lines_page()
    assert "color-scheme: light dark" in page
    light, dark = re.findall(r":root \{[^}]*--paper: (#\w+)", page)[:2]
    assert light != dark
    colours = set(re.findall(r"var\((--\w+)\)", page))
    for root in re.findall(r":root \{([^}]*)\}", page)[:2]:
        assert colours <= set(re.findall(r"(--\w+):", root))


def test_line_is_to_scale():
    (chart,) = charts(lines_page())
    paths = [element.get("d") for element in chart.iter() if element.tag.endswith("path")]
    assert len(paths) == 2
    points = [tuple(map(float, point)) for point in re.findall(r"([\d.]+) ([\d.]+)", paths[0])]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y0 - y1 == pytest.approx(y1 - y2)
    grid = sorted(
        float(element.get("y1")) for element in chart.iter() if element.get("class") == "grid"
    )
    assert (grid[0], grid[-1]) == (y2, y0)


def test_lines_have_titles_and_axis_labels():
    (chart,) = charts(lines_page())
    titles = [element.text for element in chart.iter() if element.tag.endswith("title")]
    assert "a, 2023-11-14 22:14:20: 50" in titles
    labels = [element.text for element in chart.iter() if element.tag.endswith("text")]
    assert {"0", "100"} <= set(labels)
    assert any(re.fullmatch(r"22:1\d:\d\d", label) for label in labels)


def test_smallest_of_too_many_series_are_merged():
    names = [f"t{number}" for number in range(COLOURS_MAX + 3)]
    page = lines_page(names, (1, 2))
    (chart,) = charts(page)
    assert sum(element.tag.endswith("path") for element in chart.iter()) == COLOURS_MAX
    assert OTHERS in ParsedPage(page).texts


def test_bar_lengths_are_proportional_to_values():
    keys = pa.table({"topic": ["a", "a", "b"], "key": ["x", "y", "z"], "records": [8, 4, 100]})
    definition = Chart("Keys", ChartType.BARS, "key", "records", row_filter=("topic", "a"))
    (chart,) = charts(page_of(Table("keys", "Keys", keys, [definition])))
    widths = [
        float(element.get("width")) for element in chart.iter() if element.tag.endswith("rect")
    ]
    assert len(widths) == 2
    assert widths[0] == pytest.approx(2 * widths[1])


def test_empty_table_has_no_figure():
    page = page_of(Table("rates", "Rates", rates([], []), [LINES]))
    assert "<figure>" not in page
    assert "None." in ParsedPage(page).texts


def test_single_row_is_a_list_and_many_rows_are_folded_and_limited():
    one = page_of(Table("total", "Total", pa.table({"diskBytes": [1500]})))
    assert ParsedPage(one).tags.count("dd") == 1
    many = page_of(Table("all", "All", pa.table({"n": range(ROWS_MAX + 7)})))
    assert ParsedPage(many).tags.count("tr") == ROWS_MAX + 1
    assert "7 more rows are not shown." in ParsedPage(many).texts
    assert ParsedPage(many).tags.count("details") == 1
    assert "details" not in ParsedPage(one).tags
