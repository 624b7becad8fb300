"""Builds and parses every path of Kafka's tree in ZooKeeper.  Kafka: ZkData.scala.

    /cluster/id
    /brokers/ids/ID                             ephemeral; its czxid is the broker's epoch
    /brokers/topics/T/partitions/P/state
    /brokers/seqid                              its version generates broker ids
    /controller                                 ephemeral
    /controller_epoch
    /config/TYPE/NAME                           TYPE: topics, clients, users, brokers, ips, groups
    /config/users/U/clients/C
    /config/changes/config_change_N
    /isr_change_notification/isr_change_N
    /log_dir_event_notification/log_dir_event_N
    /admin/delete_topics/T
    /admin/reassign_partitions
    /admin/preferred_replica_election
    /latest_producer_id_block
    /feature
    /migration                                  in a cluster that migrates to KRaft
    /consumers/GROUP/offsets/T/P                offsets of clients older than 0.9
    /kafka-acl/RESOURCE/NAME                    and /kafka-acl-extended/prefixed/RESOURCE/NAME
    /kafka-acl-changes/acl_changes_N            and /kafka-acl-extended-changes/acl_changes_N
    /delegation_token/tokens/ID
    /delegation_token/token_changes/token_change_N

N is ten digits that the store appends.  Users and clients are URL-encoded in /config, since their
names may contain slashes.  The znode ``<default>`` holds the configuration of all entities without
their own.  A parser returns None for a path it does not know: other tools may create znodes too.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote_plus

from odradek.protocol.types import TopicPartition

INT32_MAX = 2**31 - 1

ADMIN = "/admin"
BROKERS = "/brokers"
CLUSTER = "/cluster"
CONFIG = "/config"
CONSUMERS = "/consumers"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELEGATION_TOKEN = "/delegation_token"
EXTENDED_ACL = "/kafka-acl-extended"
FEATURE = "/feature"
LITERAL_ACL = "/kafka-acl"
MIGRATION = "/migration"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

BROKER_IDS = f"{BROKERS}/ids"
BROKER_SEQUENCE = f"{BROKERS}/seqid"
CLUSTER_ID = f"{CLUSTER}/id"
DELEGATION_TOKENS = f"{DELEGATION_TOKEN}/tokens"
DELETE_TOPICS = f"{ADMIN}/delete_topics"
PREFERRED_REPLICA_ELECTION = f"{ADMIN}/preferred_replica_election"
PREFIXED_ACL = f"{EXTENDED_ACL}/prefixed"
REASSIGN_PARTITIONS = f"{ADMIN}/reassign_partitions"
TOPICS = f"{BROKERS}/topics"

#: The znode below /config/TYPE for all entities that have no configuration of their own.
DEFAULT_ENTITY = "<default>"


# Notifications


@dataclass(frozen=True, slots=True)
class NodeSequence:
    """A parent with sequential children."""

    parent: str
    name_prefix: str

    @property
    def create_path(self) -> str:
        """The path to create a sequential znode with; the store appends the number."""
        return f"{self.parent}/{self.name_prefix}"

    def child_path(self, name: str) -> str:
        return f"{self.parent}/{name}"

    def sequence_number(self, name: str) -> int | None:
        """Return the number; negative ones follow 2**31 - 1, since the store counts in 32 bits."""
        match = _SEQUENCE_NUMBER.fullmatch(name.removeprefix(self.name_prefix))
        return int(match[0]) if match and name.startswith(self.name_prefix) else None

    def sort_children(self, names: Iterable[str]) -> list[str]:
        """Return the ``names`` that belong to the sequence, oldest first."""
        numbers = {name: self.sequence_number(name) for name in names}
        known = ((number, name) for name, number in numbers.items() if number is not None)
        return [name for _, name in sorted(known)]


_SEQUENCE_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)

CONFIG_CHANGES = NodeSequence(f"{CONFIG}/changes", "config_change_")
ISR_CHANGES = NodeSequence("/isr_change_notification", "isr_change_")
LOG_DIR_EVENTS = NodeSequence("/log_dir_event_notification", "log_dir_event_")
ACL_CHANGES = NodeSequence("/kafka-acl-changes", "acl_changes_")
EXTENDED_ACL_CHANGES = NodeSequence("/kafka-acl-extended-changes", "acl_changes_")
TOKEN_CHANGES = NodeSequence(f"{DELEGATION_TOKEN}/token_changes", "token_change_")


# Brokers and topics


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def parse_broker_id(name: str) -> int | None:
    """Parse the name of a child of /brokers/ids."""
    return _parse_number(name)


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}"


def partition_state(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}/state"


def topic_from_path(path: str) -> str | None:
    """Return the topic of a path at or below a topic's znode."""
    match = _TOPIC_PATH.match(path)
    return match[1] if match else None


def partition_from_path(path: str) -> TopicPartition | None:
    """Return the partition of a path at or below a partition's znode."""
    match = _PARTITION_PATH.match(path)
    number = _parse_number(match[2]) if match else None
    return TopicPartition(match[1], number) if match and number is not None else None


def parse_partition_id(name: str) -> int | None:
    """Parse the name of a child of /brokers/topics/T/partitions."""
    return _parse_number(name)


_TOPIC_PATH = re.compile(rf"{TOPICS}/([^/]+)(?=/|\Z)")
_PARTITION_PATH = re.compile(rf"{TOPICS}/([^/]+)/partitions/([^/]+)(?=/|\Z)")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def _parse_number(text: str) -> int | None:
    """Accept the canonical form only: 07 is another znode than 7."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and number <= INT32_MAX else None


def topic_to_delete(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def consumer_offset(group: str, topic_partition: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic_partition.topic}/{topic_partition.partition}"


# ACLs and delegation tokens


def literal_acl(resource_type: str, name: str) -> str:
    return f"{LITERAL_ACL}/{resource_type}/{name}"


def prefixed_acl(resource_type: str, name: str) -> str:
    return f"{PREFIXED_ACL}/{resource_type}/{name}"


def delegation_token(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


# Configurations


class EntityType(Enum):
    """The types of configured entities; the value is the name of the znode below /config."""

    TOPIC = "topics"
    CLIENT = "clients"
    USER = "users"
    BROKER = "brokers"
    IP = "ips"
    #: Kafka on ZooKeeper does not know this type: it ignores the znode, and logs an error for a
    #: change notification.  So the znode exists only while a group is configured.
    GROUP = "groups"

    @property
    def path(self) -> str:
        return f"{CONFIG}/{self.value}"


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """The entity of a configuration, by the names of its znodes.

    Names of users and clients are sanitized (URL-encoded); ``sanitized_client_id`` is set for a
    client of one user.
    """

    entity_type: EntityType
    sanitized_name: str
    sanitized_client_id: str | None = None

    @classmethod
    def parse(cls, entity_path: str) -> ConfigEntity | None:
        """Parse the form of ``str()``: the entity path of a notification, or below /config/."""
        match entity_path.split("/"):
            case [entity_type, name] if entity_type in _ENTITY_TYPES and name:
                return cls(_ENTITY_TYPES[entity_type], name)
            case ["users", name, "clients", client_id] if name and client_id:
                return cls(EntityType.USER, name, client_id)
            case _:
                return None

    def __str__(self) -> str:
        parent = f"{self.entity_type.value}/{self.sanitized_name}"
        return (
            parent
            if self.sanitized_client_id is None
            else f"{parent}/clients/{self.sanitized_client_id}"
        )

    @property
    def path(self) -> str:
        return f"{CONFIG}/{self}"


_ENTITY_TYPES = {kind.value: kind for kind in EntityType}


def topic_config(name: str) -> ConfigEntity:
    return ConfigEntity(EntityType.TOPIC, name)


def broker_config(broker_id: int | None) -> ConfigEntity:
    """None: the default of all brokers."""
    return ConfigEntity(EntityType.BROKER, DEFAULT_ENTITY if broker_id is None else str(broker_id))


def client_config(client_id: str | None) -> ConfigEntity:
    """None: the default of all clients."""
    return ConfigEntity(EntityType.CLIENT, _sanitize_or_default(client_id))


def user_config(user: str | None) -> ConfigEntity:
    """None: the default of all users."""
    return ConfigEntity(EntityType.USER, _sanitize_or_default(user))


def user_client_config(*, user: str | None, client_id: str | None) -> ConfigEntity:
    """None: the default of all users, or of all clients of a user."""
    return ConfigEntity(
        EntityType.USER,
        _sanitize_or_default(user),
        sanitized_client_id=_sanitize_or_default(client_id),
    )


def ip_config(address: str | None) -> ConfigEntity:
    """None: the default of all IP addresses."""
    return ConfigEntity(EntityType.IP, DEFAULT_ENTITY if address is None else address)


def group_config(group_id: str) -> ConfigEntity:
    return ConfigEntity(EntityType.GROUP, sanitize(group_id))


def sanitize(name: str) -> str:
    """Encode a user's or client's name; only letters, digits and ``.-_`` are not encoded."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(sanitized_name: str) -> str | None:
    """Return the name of the user or client; None for the default."""
    return None if sanitized_name == DEFAULT_ENTITY else unquote_plus(sanitized_name)


def _sanitize_or_default(name: str | None) -> str:
    return DEFAULT_ENTITY if name is None else sanitize(name)


# Znodes that must exist, and their access


def with_parents(leaf_paths: Iterable[str]) -> tuple[str, ...]:
    """Return each path after its parents, without duplicates, in an order to create them in."""
    ordered = {node: None for path in leaf_paths for node in (*parents(path), path)}
    return tuple(ordered)


def parents(path: str) -> list[str]:
    """Return the parents from the top, without the root."""
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]


#: The persistent znodes that a broker creates before it does anything else.
PERSISTENT_ROOTS = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES.parent,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES.parent,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS.parent,
    *(kind.path for kind in EntityType if kind is not EntityType.GROUP),
)

#: The znodes that an authorizer creates.
RESOURCE_TYPES = ("Cluster", "User", "Topic", "Group", "TransactionalId", "DelegationToken")
ACL_ROOTS = (
    *(f"{LITERAL_ACL}/{resource_type}" for resource_type in RESOURCE_TYPES),
    *(f"{PREFIXED_ACL}/{resource_type}" for resource_type in RESOURCE_TYPES),
    ACL_CHANGES.parent,
    EXTENDED_ACL_CHANGES.parent,
)

#: The znodes that delegation tokens need.
TOKEN_ROOTS = (TOKEN_CHANGES.parent, DELEGATION_TOKENS)

#: The topmost znodes that only brokers may change when ``zookeeper.set.acl`` is on.
SECURE_ROOTS = (
    ADMIN,
    BROKERS,
    CLUSTER,
    CONFIG,
    CONTROLLER,
    CONTROLLER_EPOCH,
    ISR_CHANGES.parent,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS.parent,
    DELEGATION_TOKEN,
    EXTENDED_ACL,
    MIGRATION,
    FEATURE,
    LITERAL_ACL,
    ACL_CHANGES.parent,
    PREFIXED_ACL,
    EXTENDED_ACL_CHANGES.parent,
)

#: Paths with these prefixes hold secrets; with ``zookeeper.set.acl`` only brokers may read them.
SENSITIVE_ROOTS = (EntityType.USER.path, EntityType.BROKER.path, DELEGATION_TOKENS)


def is_sensitive(path: str) -> bool:
    return path.startswith(SENSITIVE_ROOTS)


def is_open_to_all(path: str) -> bool:
    """Return whether anybody may change the znode: the oldest consumers write below it."""
    return path == CONSUMERS
