"""Tests of broker/handlers/controller_guard.py."""

import pytest

from odradek.broker.handlers import create_partitions, create_topics, delete_topics
from odradek.controller.store.base import SessionExpired
from odradek.protocol.api.create_partitions import CreatePartitionsRequest
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.errors import NotController
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import called, in_the_end
from tests.support.fake_cluster import Office
from tests.support.metadata_updates import cluster, state, update
from tests.support.planned_topics import FakeTopics
from tests.support.topic_entries import growth_entry, topic_entry

TO_DELETE = DeleteTopicsRequest.Topic(name="t", topic_id=ZERO_UUID)


async def expire(*_):
    raise SessionExpired("/brokers/topics/t")


@pytest.mark.parametrize(
    ("step", "handle", "body"),
    [
        ("plan_topics", create_topics.handle, CreateTopicsRequest(topics=[topic_entry("t")])),
        ("create_topics", create_topics.handle, CreateTopicsRequest(topics=[topic_entry("t")])),
        (
            "create_partitions",
            create_partitions.handle,
            CreatePartitionsRequest(
                topics=[growth_entry("t", count=2)], timeout_ms=1000, validate_only=False
            ),
        ),
        (
            "request_deletions",
            lambda *args: delete_topics.handle(*args[:-1], True, args[-1]),
            DeleteTopicsRequest(topics=[TO_DELETE], timeout_ms=1000),
        ),
    ],
)
async def test_session_expiry_during_a_request_returns_not_controller(
    monkeypatch, caplog, step, handle, body
):
    monkeypatch.setattr(FakeTopics, step, expire)
    metadata_cache = cluster(update({"t": [state()]}))
    with pytest.raises(NotController):
        await in_the_end(handle(Office(), FakeTopics(), metadata_cache, called(body)))
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
