"""Every payload survives a round trip, and damaged bytes raise only CorruptPayload."""

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.broker import (
    BrokerRegistration,
    Endpoint,
    SecurityProtocol,
    SupportedVersionRange,
)
from odradek.controller.store.payloads.cluster import (
    ClusterId,
    FeatureStatus,
    FinalizedFeatures,
    ProducerIdsBlock,
)
from odradek.controller.store.payloads.config import ConfigChangeNotification, EntityConfig
from odradek.controller.store.payloads.consumer_offset import ConsumerOffset
from odradek.controller.store.payloads.controller import ControllerEpoch, ControllerRegistration
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.controller.store.payloads.notifications import IsrChange, LogDirEvent
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.mutation import mutated

int32s = st.integers(-(2**31), 2**31 - 1)
naturals = st.integers(0, 2**31 - 1)
times_ms = st.integers(-1, 2**63 - 1)
broker_lists = st.lists(int32s, max_size=4).map(tuple)
partitions = st.builds(TopicPartition, st.text(), int32s)
partition_lists = st.lists(partitions, max_size=5, unique=True).map(tuple)
node_names = st.text(min_size=1).filter(lambda name: "/" not in name)

any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
# Extra fields have a prefix that no payload field has.
extra = st.dictionaries(st.text().map("x-".__add__), any_json, max_size=2)

endpoints = st.builds(
    Endpoint,
    listener=st.from_regex(r"[A-Z_]+", fullmatch=True),
    host=st.from_regex(r"([0-9a-z.%-]*|::[0-9a-f:]*[0-9a-f])", fullmatch=True),
    port=st.integers(-1, 65535),
    security_protocol=st.sampled_from(SecurityProtocol),
)
feature_versions = st.tuples(naturals, naturals).map(
    lambda pair: SupportedVersionRange(min(pair), max(pair))
)
entities = st.builds(ConfigEntity, st.sampled_from(EntityType), node_names) | st.builds(
    ConfigEntity, st.just(EntityType.USER), node_names, node_names
)

every_payload = st.one_of(
    st.builds(
        BrokerRegistration,
        endpoints=st.lists(endpoints, unique_by=lambda each: each.listener, max_size=5).map(tuple),
        rack=st.none() | st.text(),
        features=st.dictionaries(st.text(), feature_versions, max_size=3),
        jmx_port=int32s,
        timestamp_ms=times_ms,
        extra=extra,
    ),
    st.builds(
        TopicAssignment,
        partitions=st.dictionaries(
            naturals,
            st.builds(ReplicaAssignment, broker_lists, broker_lists, broker_lists),
            max_size=30,
        ),
        topic_id=st.none() | st.binary(min_size=16, max_size=16).map(Uuid),
        extra=extra,
    ),
    st.builds(LeaderAndIsr, int32s, int32s, broker_lists, int32s, st.booleans(), extra),
    st.builds(ControllerRegistration, int32s, times_ms, int32s, extra),
    st.builds(ControllerEpoch, naturals),
    st.builds(ConsumerOffset, st.integers(0, 2**63 - 1)),
    st.builds(EntityConfig, st.dictionaries(st.text(), st.text(), max_size=20), extra),
    st.builds(ConfigChangeNotification, entities, extra),
    st.builds(IsrChange, partition_lists, extra),
    st.builds(LogDirEvent, int32s, int32s, extra),
    st.builds(
        ReassignPartitions,
        st.dictionaries(partitions, broker_lists, max_size=4),
        extra,
    ),
    st.builds(PreferredReplicaElection, partition_lists, extra),
    st.builds(ClusterId, st.text(), extra),
    st.builds(
        FinalizedFeatures,
        st.sampled_from(FeatureStatus),
        st.dictionaries(st.text(), st.integers(1, 2**31 - 1), max_size=3),
        extra,
    ),
    st.tuples(int32s, st.integers(0, 2**62), st.integers(0, 2**62 - 1), extra).map(
        lambda parts: ProducerIdsBlock(parts[0], parts[1], parts[1] + parts[2], parts[3])
    ),
)


@given(every_payload)
def test_payload_survives_a_round_trip(payload):
    value = payload.encode()
    assert type(payload).decode(value) == payload
    assert type(payload).decode(value).encode() == value


@given(every_payload, every_payload, st.integers(0, 2**32))
def test_damaged_bytes_are_rejected_or_survive_a_round_trip(payload, other, seed):
    value = mutated(payload.encode(), other.encode(), Random(seed))
    assert_rejected_or_round_trips(type(payload), value)


@given(every_payload, every_payload)
def test_value_of_another_znode_is_rejected_or_decoded(payload, other):
    assert_rejected_or_round_trips(type(payload), other.encode())


@given(every_payload, st.binary())
def test_any_bytes_are_rejected_or_decoded(payload, value):
    assert_rejected_or_round_trips(type(payload), value)


@given(every_payload, any_json, st.randoms(use_true_random=False))
def test_field_of_any_type_is_rejected_or_decoded(payload, field_value, random):
    fields = json.loads(payload.encode())
    if isinstance(fields, dict):
        fields[random.choice(list(fields))] = field_value
    assert_rejected_or_round_trips(type(payload), json.dumps(fields).encode())


def assert_rejected_or_round_trips(payload_class, value):
    payload = decode_if_valid(payload_class, value)
    if payload is not None:
        assert payload_class.decode(payload.encode()) == payload


def decode_if_valid(payload_class, value):
    try:
        return payload_class.decode(value)
    except CorruptPayload:
        return None
