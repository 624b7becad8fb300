"""One of two brokers that are sent the same requests: its connection, and what it answered.

An answer is shown with what may differ between two brokers that do the same (see
differential_shown).  A connection that the broker closed is opened anew for the next step.

Owner: the test's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.header import ResponseHeader, request_frame, response_header_version
from odradek.protocol.registry import api
from odradek.protocol.types import ZERO_UUID, Uuid
from tests.interop.differential_requests import STRANGE_ID, Step
from tests.interop.differential_shown import Facts, shown
from tests.support.wire_client import HungUp, WireClient, call, request

CORRELATION_ID = 7
CLOSED, SILENT, UNANSWERED = "<closed>", "<silent>", "<no answer, as is right>"


class Side:
    """``log_dirs`` are where it keeps records, in the order in which it was told."""

    def __init__(self, name: str, *, port: int, log_dirs: Sequence[str]) -> None:
        self.name = name
        self.port = port
        self.log_dirs = log_dirs
        self.session_id = 0
        self._address = f"127.0.0.1:{port}"
        self._topic_ids: dict[str, Uuid] = {}
        self._client: WireClient | None = None

    def answer(self, step: Step) -> Any:
        """What can be compared: a mapping, or a word."""
        client = self._connected()
        try:
            client.socket.settimeout(step.patience_s)
            client.send_bytes(self._frame(step))
            if step.is_answered:
                return self._shown(step, client.answer_bytes())
            return self._heard_after(client)
        except (HungUp, ConnectionError):
            self.hang_up()
            return CLOSED
        except TimeoutError:
            self.hang_up()
            return SILENT

    def hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def topic_id(self, name: str) -> Uuid:
        """The one that nobody has, where there is no such topic."""
        if name not in self._topic_ids:
            self._learn_topics()
        return self._topic_ids.get(name, STRANGE_ID)

    def topic_name(self, topic_id: Uuid) -> str | None:
        if topic_id not in self._topic_ids.values():
            self._learn_topics()
        names = {each: name for name, each in self._topic_ids.items()}
        return names.get(topic_id)

    def _learn_topics(self) -> None:
        answer = call(self._address, ApiKey.METADATA, 12, topics=None)
        known = {topic.name: topic.topic_id for topic in answer.topics}
        self._topic_ids |= {name: each for name, each in known.items() if each != ZERO_UUID}

    def _connected(self) -> WireClient:
        if self._client is None:
            self._client = WireClient(self._address)
        return self._client

    def _frame(self, step: Step) -> bytes:
        if step.raw is not None:
            return step.raw
        message = request(api(step.key).request, step.version, step.values_for(self))
        parts = request_frame(step.key, step.version, CORRELATION_ID, step.client_id, message)
        return b"".join(parts)

    def _heard_after(self, client: WireClient) -> Any:
        """A second request shows that there was nothing to say about the first."""
        message = request(api(ApiKey.API_VERSIONS).request, 0, {})
        frame = request_frame(ApiKey.API_VERSIONS, 0, CORRELATION_ID + 1, None, message)
        client.send_bytes(b"".join(frame))
        header, _ = decode_prefix(ResponseHeader, 0, client.answer_bytes())
        assert header.correlation_id == CORRELATION_ID + 1, header
        return UNANSWERED

    def _shown(self, step: Step, body: bytes) -> Any:
        header_version = response_header_version(step.key, step.version)
        header, position = decode_prefix(ResponseHeader, header_version, body)
        answer = decode(api(step.key).response, step.version, body, position)
        if step.key is ApiKey.FETCH and not answer.error_code:
            self.session_id = answer.session_id
        if step.key is ApiKey.CREATE_TOPICS and step.version >= 7:
            self._topic_ids |= {
                each.name: each.topic_id for each in answer.topics if each.topic_id != ZERO_UUID
            }
        facts = Facts(step.key, step.version, self.port, self.log_dirs, self.topic_name)
        assert header.correlation_id == CORRELATION_ID, header
        return shown(facts, answer)
