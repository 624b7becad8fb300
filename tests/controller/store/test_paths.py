"""The paths of all znodes, built and parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.store import paths
from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.protocol.types import TopicPartition

ORDERS_3 = TopicPartition("orders", 3)

PATHS = {
    "/controller": paths.CONTROLLER,
    "/controller_epoch": paths.CONTROLLER_EPOCH,
    "/cluster/id": paths.CLUSTER_ID,
    "/feature": paths.FEATURE,
    "/migration": paths.MIGRATION,
    "/latest_producer_id_block": paths.PRODUCER_ID_BLOCK,
    "/brokers/ids": paths.BROKER_IDS,
    "/brokers/ids/7": paths.broker(7),
    "/brokers/seqid": paths.BROKER_SEQUENCE,
    "/brokers/topics": paths.TOPICS,
    "/brokers/topics/orders": paths.topic("orders"),
    "/brokers/topics/orders/partitions": paths.topic_partitions("orders"),
    "/brokers/topics/orders/partitions/3": paths.partition(ORDERS_3),
    "/brokers/topics/orders/partitions/3/state": paths.partition_state(ORDERS_3),
    "/admin/delete_topics": paths.DELETE_TOPICS,
    "/admin/delete_topics/orders": paths.topic_to_delete("orders"),
    "/admin/reassign_partitions": paths.REASSIGN_PARTITIONS,
    "/admin/preferred_replica_election": paths.PREFERRED_REPLICA_ELECTION,
    "/config/changes/config_change_": paths.CONFIG_CHANGES.create_path,
    "/config/changes/config_change_0000000012": paths.CONFIG_CHANGES.child_path(
        "config_change_0000000012"
    ),
    "/isr_change_notification/isr_change_": paths.ISR_CHANGES.create_path,
    "/log_dir_event_notification/log_dir_event_": paths.LOG_DIR_EVENTS.create_path,
    "/kafka-acl-changes/acl_changes_": paths.ACL_CHANGES.create_path,
    "/kafka-acl-extended-changes/acl_changes_": paths.EXTENDED_ACL_CHANGES.create_path,
    "/delegation_token/token_changes/token_change_": paths.TOKEN_CHANGES.create_path,
    "/delegation_token/tokens/abc": paths.delegation_token("abc"),
    "/kafka-acl/Topic/orders": paths.literal_acl("Topic", "orders"),
    "/kafka-acl-extended/prefixed/Group/g": paths.prefixed_acl("Group", "g"),
    "/consumers/g/offsets/orders/3": paths.consumer_offset("g", ORDERS_3),
    "/config/topics": EntityType.TOPIC.path,
    "/config/topics/orders": paths.topic_config("orders").path,
    "/config/brokers/7": paths.broker_config(7).path,
    "/config/brokers/<default>": paths.broker_config(None).path,
    "/config/clients/a%20b": paths.client_config("a b").path,
    "/config/clients/<default>": paths.client_config(None).path,
    "/config/users/CN%3Dx%2CO%3Dy%2Fz": paths.user_config("CN=x,O=y/z").path,
    "/config/users/%3Cdefault%3E": paths.user_config("<default>").path,
    "/config/users/<default>": paths.user_config(None).path,
    "/config/users/u/clients/c": paths.user_client_config(user="u", client_id="c").path,
    "/config/users/<default>/clients/<default>": paths.user_client_config(
        user=None, client_id=None
    ).path,
    "/config/ips/::1": paths.ip_config("::1").path,
    "/config/ips/<default>": paths.ip_config(None).path,
    "/config/groups/a%2Fb": paths.group_config("a/b").path,
}


@pytest.mark.parametrize("path", PATHS)
def test_path_is_the_one_that_kafka_uses(path):
    assert PATHS[path] == path


def test_persistent_roots_are_those_of_kafka():
    assert paths.PERSISTENT_ROOTS == (
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/brokers/seqid",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
    )


def test_secure_roots_are_those_of_kafka():
    assert set(paths.SECURE_ROOTS) == {
        "/admin",
        "/brokers",
        "/cluster",
        "/config",
        "/controller",
        "/controller_epoch",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/delegation_token",
        "/kafka-acl",
        "/kafka-acl-changes",
        "/kafka-acl-extended",
        "/kafka-acl-extended/prefixed",
        "/kafka-acl-extended-changes",
        "/migration",
        "/feature",
    }


def test_every_root_except_consumers_is_secure():
    roots = (*paths.PERSISTENT_ROOTS, *paths.ACL_ROOTS, *paths.TOKEN_ROOTS)
    top_levels = {paths.with_parents([root])[0] for root in roots}
    assert top_levels - set(paths.SECURE_ROOTS) == {paths.CONSUMERS}
    assert [root for root in roots if paths.is_open_to_all(root)] == [paths.CONSUMERS]


def test_acl_roots_cover_every_resource_type():
    assert "/kafka-acl/TransactionalId" in paths.ACL_ROOTS
    assert "/kafka-acl-extended/prefixed/DelegationToken" in paths.ACL_ROOTS
    assert len(paths.ACL_ROOTS) == 14


@pytest.mark.parametrize(
    "path", ["/config/users/u", "/config/brokers/1", "/delegation_token/tokens/t"]
)
def test_passwords_and_tokens_are_sensitive(path):
    assert paths.is_sensitive(path)


@pytest.mark.parametrize("path", ["/config/topics/t", "/brokers/ids/1", "/delegation_token"])
def test_other_paths_are_not_sensitive(path):
    assert not paths.is_sensitive(path)


def test_parents_come_once_and_before_their_children():
    leaves = ["/a/b/c", "/a/b", "/d", "/a/e"]
    assert paths.with_parents(leaves) == ("/a", "/a/b", "/a/b/c", "/d", "/a/e")
    assert paths.parents("/a") == []


# Sequences


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("isr_change_0000000000", 0),
        ("isr_change_0000000042", 42),
        ("isr_change_2147483647", 2147483647),
        ("isr_change_-2147483648", -2147483648),
        ("isr_change_", None),
        ("isr_change_x", None),
        ("isr_change_12345678901", None),
        ("isr_change_\u0661", None),
        ("0000000042", None),
        ("log_dir_event_0000000042", None),
    ],
)
def test_sequence_number_is_the_suffix_that_the_store_appended(name, number):
    assert paths.ISR_CHANGES.sequence_number(name) == number


def test_notifications_are_sorted_by_sequence_number():
    names = ["config_change_0000000010", "other", "config_change_0000000009"]
    assert paths.CONFIG_CHANGES.sort_children(names) == [names[2], names[0]]


# Brokers, topics, partitions


@pytest.mark.parametrize("name", ["", "x", "-1", "+1", "07", "2147483648", "1 ", "1\n", "\u0661"])
def test_malformed_broker_and_partition_ids_parse_to_none(name):
    assert paths.parse_broker_id(name) is None
    assert paths.parse_partition_id(name) is None


@pytest.mark.parametrize(("name", "number"), [("0", 0), ("10", 10), ("2147483647", 2147483647)])
def test_broker_id_is_parsed_from_its_node_name(name, number):
    assert paths.parse_broker_id(name) == number


@pytest.mark.parametrize("suffix", ["", "/partitions", "/partitions/3/state"])
def test_topic_is_parsed_from_any_path_below_it(suffix):
    assert paths.topic_from_path("/brokers/topics/orders" + suffix) == "orders"


@pytest.mark.parametrize(
    "path", ["/brokers/topics", "/brokers/topics/", "/brokers/ids/1", "/x/brokers/topics/orders"]
)
def test_other_paths_have_no_topic(path):
    assert paths.topic_from_path(path) is None


@pytest.mark.parametrize("suffix", ["", "/state"])
def test_partition_is_parsed_from_any_path_below_it(suffix):
    assert paths.partition_from_path("/brokers/topics/orders/partitions/3" + suffix) == ORDERS_3


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/orders",
        "/brokers/topics/orders/partitions",
        "/brokers/topics/orders/partitions/",
        "/brokers/topics/orders/partitions/x",
        "/brokers/topics/orders/partitions/03",
        "/brokers/topics/orders/other/3",
    ],
)
def test_other_paths_have_no_partition(path):
    assert paths.partition_from_path(path) is None


# Configurations

ENTITIES = {
    "topics/orders": ConfigEntity(EntityType.TOPIC, "orders"),
    "brokers/7": ConfigEntity(EntityType.BROKER, "7"),
    "brokers/<default>": ConfigEntity(EntityType.BROKER, "<default>"),
    "clients/a%20b": ConfigEntity(EntityType.CLIENT, "a%20b"),
    "users/u": ConfigEntity(EntityType.USER, "u"),
    "users/u/clients/c": ConfigEntity(EntityType.USER, "u", "c"),
    "users/<default>/clients/c": ConfigEntity(EntityType.USER, "<default>", "c"),
    "ips/10.0.0.1": ConfigEntity(EntityType.IP, "10.0.0.1"),
    "groups/a%2Fb": ConfigEntity(EntityType.GROUP, "a%2Fb"),
}


@pytest.mark.parametrize("text", ENTITIES)
def test_entity_is_parsed_from_its_string_form(text):
    assert ConfigEntity.parse(text) == ENTITIES[text]
    assert str(ENTITIES[text]) == text
    assert ENTITIES[text].path == f"/config/{text}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "topics",
        "topics/",
        "/topics/t",
        "topics/t/",
        "changes/c",
        "client-metrics/m",
        "users/u/clients",
        "users/u/clients/",
        "users//clients/c",
        "users/u/topics/t",
        "topics/t/clients/c",
        "users/u/clients/c/x",
    ],
)
def test_malformed_entity_parses_to_none(text):
    assert ConfigEntity.parse(text) is None


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("alice", "alice"),
        ("a b", "a%20b"),
        ("a*b+c", "a%2Ab%2Bc"),
        ("~-_.%", "%7E-_.%25"),
        ("!'()", "%21%27%28%29"),
        ("é😀", "%C3%A9%F0%9F%98%80"),
        ("<default>", "%3Cdefault%3E"),
        ("", ""),
    ],
)
def test_user_and_client_names_are_sanitized_as_in_kafka(name, node):
    assert paths.sanitize(name) == node
    assert paths.desanitize(node) == name


def test_plus_in_a_node_name_is_a_space():
    assert paths.desanitize("a+b") == "a b"


def test_default_entity_desanitizes_to_none():
    assert paths.desanitize(paths.DEFAULT_ENTITY) is None


@given(st.text())
def test_any_name_survives_sanitizing_and_has_no_slash(name):
    node = paths.sanitize(name)
    assert paths.desanitize(node) == name
    assert "/" not in node


@given(st.text(min_size=1), st.none() | st.text(min_size=1))
def test_every_entity_is_parsed_from_its_path(user, client_id):
    entity = paths.user_client_config(user=user, client_id=client_id)
    assert ConfigEntity.parse(str(entity)) == entity


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_every_partition_is_parsed_from_its_path(topic, number):
    partition = TopicPartition(topic, number)
    assert paths.partition_from_path(paths.partition_state(partition)) == partition
    assert paths.topic_from_path(paths.partition(partition)) == topic
