"""What the documents say about files is true."""

import re
from pathlib import Path

import pytest

from odradek.broker.groups.classic import state as group_state
from odradek.broker.settings import reference as settings_reference
from odradek.broker.transactions import transaction_state
from odradek.controller import partition_state, replica_state
from odradek.protocol.reference import as_markdown
from tests.support.state_diagrams import diagram

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
#: A path as it stands in a document: `protocol/codec.py`, (docs/testing.md), bin/test.
PATH = re.compile(
    r"(?<![\w./])(?:odradek|bin|config|protocol|storage|controller|broker|spark_jobs|tests|benchmarks|docs)"
    r"/[\w./-]*[\w/]"
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_in_a_document_exists(document):
    named = set(PATH.findall(document.read_text()))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_between_documents_leads_somewhere(document):
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_table_of_apis_is_fresh():
    assert (ROOT / "docs/protocol.md").read_text() == as_markdown()


def test_the_tables_of_settings_are_fresh():
    assert (ROOT / "docs/configuration.md").read_text() == settings_reference.as_markdown()


@pytest.mark.parametrize(
    "machine", [partition_state, replica_state, group_state, transaction_state]
)
def test_the_diagrams_of_states_are_fresh(machine):
    assert (
        f"\n\n{diagram(machine.VALID_TRANSITIONS)}\n"
        in (ROOT / "docs/state-machines.md").read_text()
    )


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
