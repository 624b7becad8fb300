"""One of two brokers that are sent the same requests: its connections, and what it answered.

An answer is shown with what may differ between two brokers that do the same (see
differential_shown).  A connection that the broker closed is opened anew for the next step.

Owner: the test's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
SENT = "<sent>"


@dataclass(frozen=True, slots=True)
class Member:
    """Of a group, as its broker last told it; the generation may be an epoch."""

    id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Producer:
    """As its broker last told it."""

    id: int
    epoch: int


#: Of a producer that no broker has made.
NOBODY = Producer(1 << 40, 0)


class Side:
    """``log_dir_failures`` are where it keeps records, in the order in which it was told."""

    def __init__(self, name: str, *, port: int, log_dirs: Sequence[str]) -> None:
        self.name = name
        self.port = port
        self.log_dirs = log_dirs
        self.session_id = 0
        self._address = f"127.0.0.1:{port}"
        self._topic_ids: dict[str, Uuid] = {}
        self._clients: dict[str, WireClient] = {}
        self._members: dict[str, Member] = {}
        self._producers: dict[str, Producer] = {}

    def answer(self, step: Step) -> Any:
        """What can be compared: a mapping, or a word."""
        client = self._connected(step.via)
        try:
            client.socket.settimeout(step.patience_s)
            return self._heard(step, client)
        except (HungUp, ConnectionError):
            self._clients.pop(step.via).close()
            return CLOSED
        except TimeoutError:
            self._clients.pop(step.via).close()
            return SILENT

    def hang_up(self) -> None:
        """And forget who its producers were: others may go by numbers that are theirs."""
        self._producers.clear()
        for client in self._clients.values():
            client.close()
        self._clients.clear()

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

    def member_id(self, alias: str) -> str:
        """Of a member that a step learned of; the alias itself where there was none."""
        return self._members[alias].id if alias in self._members else alias

    def generation(self, alias: str) -> int:
        return self._members[alias].generation if alias in self._members else -1

    def producer_id(self, alias: str) -> int:
        return self._producers.get(alias, NOBODY).id

    def producer_epoch(self, alias: str) -> int:
        return self._producers.get(alias, NOBODY).epoch

    def _learn_topics(self) -> None:
        answer = call(self._address, ApiKey.METADATA, 12, topics=None)
        known = {topic.name: topic.topic_id for topic in answer.topics}
        self._topic_ids |= {name: each for name, each in known.items() if each != ZERO_UUID}

    def _connected(self, name: str) -> WireClient:
        if name not in self._clients:
            self._clients[name] = WireClient(self._address)
        return self._clients[name]

    def _heard(self, step: Step, client: WireClient) -> Any:
        if step.is_sent:
            client.send_bytes(self._frame(step))
        if not step.is_awaited:
            return SENT
        if step.is_answered:
            return self._shown(step, client.answer_bytes())
        return self._heard_after(client)

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
        self._learn(step, answer)
        _keep_those_of(step, answer)
        members = {member.id: alias for alias, member in self._members.items()}
        producers = {producer.id: alias for alias, producer in self._producers.items()}
        facts = Facts(
            key=step.key,
            version=step.version,
            port=self.port,
            log_dirs=self.log_dirs,
            topic_name=self.topic_name,
            members=members,
            producers=producers,
        )
        assert header.correlation_id == CORRELATION_ID, header
        return shown(facts, answer)

    def _learn(self, step: Step, answer: Any) -> None:
        if step.key is ApiKey.FETCH and not answer.error_code:
            self.session_id = answer.session_id
        if step.key is ApiKey.CREATE_TOPICS and step.version >= 7:
            self._topic_ids |= {
                each.name: each.topic_id for each in answer.topics if each.topic_id != ZERO_UUID
            }
        if not step.learns:
            return
        if step.key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN):
            if answer.producer_id >= 0:
                self._producers[step.learns] = Producer(answer.producer_id, answer.producer_epoch)
        elif answer.member_id:
            said = {field.name for field in answer.__schema__.fields}
            epoch = answer.generation_id if "generation_id" in said else answer.member_epoch
            self._members[step.learns] = Member(answer.member_id, epoch)


def _keep_those_of(step: Step, answer: Any) -> None:
    """Of what is listed."""
    if not step.listing:
        return
    if step.key is ApiKey.LIST_TRANSACTIONS:
        answer.transaction_states = [
            each
            for each in answer.transaction_states
            if each.transactional_id.startswith(step.listing)
        ]
    else:
        answer.groups = [each for each in answer.groups if each.group_id.startswith(step.listing)]
