"""meta.properties names the owner of a log directory, as Kafka 3.9.1 writes and reads it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.config import properties
from odradek.storage import meta_properties
from odradek.storage.meta_properties import InvalidLogDirectory, MetaProperties

FILE = "meta.properties"
CLUSTER = "-9QYv0lrTC2yRPZ34qNz3A"
BY_KAFKA = f"#\n#Mon Nov 16 07:11:11 UTC 2026\nbroker.id=1\nversion=0\ncluster.id={CLUSTER}\n"


def read(directory, content):
    (directory / FILE).write_text(content, "iso-8859-1")
    return meta_properties.read(directory)


def test_file_written_by_kafka_is_read(tmp_path):
    assert read(tmp_path, BY_KAFKA) == MetaProperties(broker_id=1, cluster_id=CLUSTER)


def test_written_file_has_the_lines_that_kafka_expects(tmp_path):
    meta_properties.write(tmp_path, MetaProperties(broker_id=7, cluster_id=CLUSTER))
    assert (tmp_path / FILE).read_text() == f"version=0\nbroker.id=7\ncluster.id={CLUSTER}\n"


def test_new_directory_has_no_properties(tmp_path):
    assert meta_properties.read(tmp_path) is None


def test_version_and_ids_may_be_missing(tmp_path):
    assert read(tmp_path, "") == MetaProperties()
    meta_properties.write(tmp_path, MetaProperties())
    assert (tmp_path / FILE).read_text() == "version=0\n"


def test_other_properties_are_kept(tmp_path):
    meta = read(tmp_path, BY_KAFKA + "directory.id=Kx2lCQvJTsGK4zGo4yQzbg\n")
    assert meta.other_properties == {"directory.id": "Kx2lCQvJTsGK4zGo4yQzbg"}
    meta_properties.write(tmp_path, meta)
    assert meta_properties.read(tmp_path) == meta


def test_kraft_directory_is_rejected(tmp_path):
    with pytest.raises(InvalidLogDirectory, match="version 1 belongs to KRaft") as caught:
        read(tmp_path, f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n")
    assert str(tmp_path / FILE) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("version=2\n", "version '2' is unknown"),
        ("version=\n", "version '' is unknown"),
        ("broker.id=one\n", "'one', which is not a valid broker id"),
        ("broker.id=-1\n", "not a valid broker id"),
        ("broker.id=2147483648\n", "not a valid broker id"),
        ("broker.id=\xb9\n", "not a valid broker id"),
        ("cluster.id=\\u12\n", "four hexadecimal digits"),
    ],
)
def test_invalid_value_is_rejected_with_the_file_name(tmp_path, content, reason):
    with pytest.raises(InvalidLogDirectory, match=reason) as caught:
        read(tmp_path, content)
    assert str(tmp_path / FILE) in str(caught.value)


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(cluster_id=text, others=st.dictionaries(text, text, max_size=3))
def test_every_text_round_trips(tmp_path, cluster_id, others):
    for name in ("version", "broker.id", "cluster.id"):
        others.pop(name, None)
    meta = MetaProperties(broker_id=0, cluster_id=cluster_id, other_properties=others)
    meta_properties.write(tmp_path, meta)
    assert meta_properties.read(tmp_path) == meta
    assert properties.load(tmp_path / FILE).values["cluster.id"] == cluster_id


A, B = Path("disk-a"), Path("disk-b")


@pytest.mark.parametrize(
    "directories",
    [
        {},
        {A: MetaProperties()},
        {A: MetaProperties(1, CLUSTER)},
        {A: MetaProperties(1, CLUSTER), B: MetaProperties(1, CLUSTER)},
        {A: MetaProperties(1), B: MetaProperties(None, CLUSTER)},
    ],
)
@pytest.mark.parametrize("broker_id", [1, None])
@pytest.mark.parametrize("cluster_id", [CLUSTER, None])
def test_directories_of_this_broker_or_without_owner_are_accepted(
    directories, broker_id, cluster_id
):
    meta_properties.verify(directories, broker_id=broker_id, cluster_id=cluster_id)


@pytest.mark.parametrize(
    ("directories", "message"),
    [
        ({A: MetaProperties(2, CLUSTER)}, "broker.id is 2, but this broker has 1"),
        ({A: MetaProperties(1, "x")}, f"cluster.id is x, but this broker has {CLUSTER}"),
    ],
)
def test_directories_of_another_broker_or_cluster_are_rejected(directories, message):
    with pytest.raises(InvalidLogDirectory) as caught:
        meta_properties.verify(directories, broker_id=1, cluster_id=CLUSTER)
    assert str(caught.value) == f"{A / FILE}: {message}"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (MetaProperties(2, CLUSTER), f"broker.id is 2, but {A / FILE} has 1"),
        (MetaProperties(1, "x"), f"cluster.id is x, but {A / FILE} has {CLUSTER}"),
    ],
)
def test_directories_that_disagree_are_rejected(other, message):
    directories = {A: MetaProperties(1, CLUSTER), B: other}
    with pytest.raises(InvalidLogDirectory) as caught:
        meta_properties.verify(directories, broker_id=None, cluster_id=None)
    assert str(caught.value) == f"{B / FILE}: {message}"
