"""What a handover must not do to groups: see test_broker_handover_live.py.

Each broker finds the offsets with all that was said of them, the members and their assignments, and
lets the members go on under their ids.  What one deleted the other does not find.
"""

from __future__ import annotations

from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.support.group_wire import WireMember, committed_line, described, find_coordinator
from tests.support.partition_client import create_topic
from tests.support.wire_client import WireClient, call

SESSION_MS = 300_000
OTHERS = ("first", "second", "third", "fourth")
GROUP, TOPIC = "g", "of-groups"


class HandedGroups:
    """A static member that goes on all the while, and for each turn a group that only commits."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._shown: Any = None

    def prepare(self) -> None:
        create_topic(self._address, TOPIC, partitions=1)
        find_coordinator(self._address)
        self._member = WireMember(self._address, GROUP, instance="one")
        assert self._member.join(session_ms=SESSION_MS) == "NONE"
        self._assignment = self._member.id.encode()
        assert self._member.sync() == ("NONE", self._assignment)
        self._member.client.close()

    def play(self, turn: int) -> None:
        """What the last broker left is there, and more is left for the next."""
        for group in (GROUP, *OTHERS):
            find_coordinator(self._address, group)
        if self._shown is not None:
            assert described(self._address, GROUP) == self._shown
        self._go_on(turn)
        self._commit_from_outside(turn)
        self._come_back()
        self._shown = described(self._address, GROUP)

    def _go_on(self, turn: int) -> None:
        self._member.client = WireClient(self._address)
        if turn:
            last = (turn - 1, f"turn {turn - 1}", turn - 1)
            assert committed_line(self._address, GROUP, TOPIC) == last
        assert self._member.heartbeat() == "NONE"
        assert self._member.sync() == ("NONE", self._assignment)
        told = {"metadata": f"turn {turn}", "epoch": turn}
        assert self._member.commit(TOPIC, turn, **told) == "NONE"
        self._member.client.close()

    def _commit_from_outside(self, turn: int) -> None:
        if turn:
            assert committed_line(self._address, OTHERS[turn - 1], TOPIC)[0] == 10 + turn - 1
        with WireMember(self._address, OTHERS[turn]) as outside:
            assert outside.commit(TOPIC, 10 + turn) == "NONE"
        if turn > 1:
            answer = call(self._address, ApiKey.DELETE_GROUPS, 2, groups_names=[OTHERS[turn - 2]])
            assert answer.results[0].error_code == 0, answer
        for gone in OTHERS[: max(turn - 1, 0)]:
            assert committed_line(self._address, gone, TOPIC)[0] == -1

    def _come_back(self) -> None:
        """It has lost its id, and has its assignment all the same."""
        self._member.client = WireClient(self._address)
        self._member.id = ""
        assert self._member.join(session_ms=SESSION_MS) == "NONE"
        assert self._member.sync() == ("NONE", self._assignment)
        self._member.client.close()
