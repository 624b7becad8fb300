"""Group consumers of franz-go and kafkajs on a broker of ours."""

from collections import Counter

import pytest

from tests.interop.polled_members import (
    ALL,
    EACH,
    RECORDS,
    broker,
    poll_until,
    send_more,
    share,
    topic,
)
from tests.support.foreign_modules import JS_SOURCES, ClientUnavailable, go_program, npm_packages
from tests.support.foreign_program import ForeignProgram
from tests.support.group_wire import committed, described
from tests.support.new_topics import new_topic

__all__ = ["broker", "new_topic", "topic"]


@pytest.fixture(scope="module", params=["franz-go", "kafkajs"])
def program(request):
    try:
        command, environment = _command(request.param)
    except ClientUnavailable as reason:
        pytest.skip(f"{request.param}: {reason}")
    with ForeignProgram(command, environment=environment) as running:
        yield running


def _command(library):
    if library == "kafkajs":
        return ["node", str(JS_SOURCES / "client.js")], {"NODE_PATH": str(npm_packages())}
    return [str(go_program()), library], {}


class ForeignMember:
    def __init__(self, program, address, group, topic):
        self._program = program
        asked = {"address": address, "group": group, "topic": topic}
        self._handle = program.ask("open_member", **asked)
        self.places = []
        self.told = {"records": [], "assigned": []}

    def poll(self):
        self.told = self._program.ask("poll", handle=self._handle)
        self.places += [(each["partition"], each["offset"]) for each in self.told["records"]]

    @property
    def assigned(self):
        return sorted(self.told["assigned"])

    def commit(self):
        self._program.ask("commit", handle=self._handle)

    def close(self):
        if self._handle is not None:
            self._program.ask("close", handle=self._handle)
        self._handle = None


@pytest.fixture
def join(program, broker, topic):
    joined = []

    def join_one():
        joined.append(ForeignMember(program, broker.address, f"group-of-{topic}", topic))
        return joined[-1]

    yield join_one
    for each in joined:
        each.close()


def test_a_restarted_member_resumes_at_its_commit(join, broker, topic):
    group = f"group-of-{topic}"
    first = join()
    poll_until(lambda: len(first.places) == RECORDS, first)
    assert first.assigned == ALL
    first.commit()
    assert committed(broker.address, group) == {(topic, number): EACH for number in ALL}
    first.close()
    assert described(broker.address, group).group_state == "Empty"
    send_more(broker, topic)
    second = join()
    poll_until(lambda: len(second.places) >= RECORDS, second)
    assert Counter(second.places) == Counter(
        (number, offset) for number in ALL for offset in range(EACH, 2 * EACH)
    )


def test_two_members_share_and_one_takes_over_from_the_other(join, broker, topic):
    first = join()
    poll_until(lambda: len(first.places) == RECORDS, first)
    first.commit()
    second = join()
    poll_until(lambda: share(first, second), first, second)
    send_more(broker, topic)
    poll_until(lambda: len(first.places) + len(second.places) >= 2 * RECORDS, first, second)
    assert {partition for partition, _ in second.places} == set(second.assigned)
    first.commit()
    second.commit()
    second.close()
    poll_until(lambda: first.assigned == ALL, first)
    found = committed(broker.address, f"group-of-{topic}")
    assert found == {(topic, number): 2 * EACH for number in ALL}
