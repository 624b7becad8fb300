"""A broker of Apache Kafka's and two of ours are one cluster.

They lead and follow each other's partitions and control each other, coordinate each other's clients
and inherit each other's directories.  Kafka's own tools tell them what to do.
"""

import json
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, product

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from tests.interop.mixed_cluster import KAFKA, ODRADEK, MixedCluster
from tests.support.batches import batch_of
from tests.support.cluster_traffic import LOOSE, Traffic
from tests.support.committed_records import settled_values
from tests.support.copiers import CopierOptions, Crew
from tests.support.copy_run import CopyRun, wait_until_copying
from tests.support.group_members import wait_until
from tests.support.group_readers import commit
from tests.support.group_wire import committed
from tests.support.java_conversation import JavaConversation, JavaTools
from tests.support.partition_client import PartitionClient
from tests.support.persistent_load import PersistentProducer
from tests.support.sole_reader import COUNT, SoleReader, write_numbers
from tests.support.transactional_clients import ConfluentTransactions

KINDS = (KAFKA, ODRADEK, ODRADEK)
PARTITIONS = 3
#: Each leads one; whoever leads is followed by one of the other kind first.
ASSIGNMENT = "0:1:2,1:0:2,2:0:1"
LED_BY_FIRST = {0: 0, 1: 1, 2: 2}
INTERNAL = ("__consumer_offsets", "__transaction_state")
NUMBERS = count()


@pytest.fixture(scope="module")
def mixed(zookeeper, kafka_39_jars, tmp_path_factory):
    directory = tmp_path_factory.mktemp("mixed")
    with MixedCluster(directory, f"{zookeeper.address}/mixed").running(*KINDS) as running:
        yield running


@pytest.fixture(scope="module")
def tool(mixed, kafka_39_jars):
    """Runs one on the cluster; how it ended, which must be well."""
    with JavaTools(kafka_39_jars) as tools:

        def run(name, *arguments, may_fail=False):
            ended = tools.run(name, "--bootstrap-server", mixed.addresses, *arguments)
            assert may_fail or ended.status == 0, ended
            return ended

        yield run


@pytest.fixture(scope="module")
def cluster(mixed, tool):
    """Each broker coordinates something, and one of the other kind does so after it."""
    for topic in INTERNAL:
        created(mixed, tool, topic, "cleanup.policy=compact")
    return mixed


@pytest.fixture
def events(cluster, tool):
    """A topic of its own for a test."""
    return created(cluster, tool, f"events-{next(NUMBERS)}")


def created(cluster, tool, topic, *configs):
    asked = ("--create", "--topic", topic, "--replica-assignment", ASSIGNMENT)
    for each in ("min.insync.replicas=2", *configs):
        asked += ("--config", each)
    tool("TopicCommand", *asked)
    cluster.wait_until_led_by(topic, LED_BY_FIRST)
    return topic


def elect_first(cluster, tool, *topics):
    """Those that are first in their assignments lead again."""
    asked = ("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    # It fails as long as one of them, of whatever topic, is not in sync.
    wait_until(lambda: tool(*asked, may_fail=True).status == 0)
    for topic in topics:
        cluster.wait_until_led_by(topic, LED_BY_FIRST)


def test_each_kind_leads_and_follows_the_other_under_a_controller_of_kafkas(
    cluster, tool, events, tmp_path
):
    kafka, ours, _ = cluster.seats
    cluster.let_control(kafka)
    with under_load(cluster, tool, events) as traffic:
        killed_and_back(cluster, traffic, events, ours)
        elect_first(cluster, tool, events)
        administer(cluster, tool, tmp_path)
        assert cluster.controller() is kafka


def test_each_kind_leads_and_follows_the_other_under_a_controller_of_ours(
    cluster, tool, events, tmp_path
):
    kafka, *ours = cluster.seats
    with under_load(cluster, tool, events) as traffic:
        killed_and_back(cluster, traffic, events, kafka)
        elect_first(cluster, tool, events)
        administer(cluster, tool, tmp_path)
        controller = cluster.controller()
        assert controller in ours
        (follower,) = [each for each in ours if each is not controller]
        killed_and_back(cluster, traffic, events, follower)


@contextmanager
def under_load(cluster, tool, topic):
    """Nothing that is acknowledged is lost, and in the end all replicas are the same."""
    loose = created(cluster, tool, f"loose-{next(NUMBERS)}")
    # Followers have to part with what they have of this, and a new leader has not.
    unsafe = PersistentProducer(
        cluster.addresses, loose, name="loose", partitions=PARTITIONS, **LOOSE
    )
    unsafe.start()
    with Traffic(cluster.addresses, topic, partitions=PARTITIONS) as traffic:
        yield traffic
        elect_first(cluster, tool, topic, loose)
        traffic.wait_for_more()
    unsafe.stop()
    traffic.check()
    for each in (topic, loose):
        cluster.wait_until_equal(each, PARTITIONS)


def killed_and_back(cluster, traffic, topic, seat):
    """What it led the others lead, meanwhile; then it follows."""
    traffic.wait_for_more()
    kind = seat.kind
    seat.kill()
    traffic.wait_for_more()
    seat.start(kind)
    cluster.wait_until_whole(topic)
    assert seat.number not in cluster.leaders(topic).values()


def administer(cluster, tool, tmp_path):
    """A topic is moved, grows, is configured and deleted, by tools."""
    topic = f"short-lived-{next(NUMBERS)}"
    named, entity = ("--topic", topic), ("--entity-type", "topics", "--entity-name", topic)
    tool("TopicCommand", "--create", *named, "--replica-assignment", "0:1,1:0")
    write_numbers(cluster.addresses, topic, partitions=2)
    move(cluster, tool, tmp_path / "plan.json", topic, {0: [1, 2], 1: [2, 0]})
    more = "1:2,2:0,0:2"
    tool("TopicCommand", "--alter", *named, "--partitions", 3, "--replica-assignment", more)
    wait_until(lambda: cluster.leaders(topic) == {0: 1, 1: 2, 2: 0})
    tool("ConfigCommand", "--alter", *entity, "--add-config", "max.message.bytes=100")
    for partition, leader in cluster.leaders(topic).items():
        seat = cluster.seats[leader]
        wait_until(lambda at=partition, seat=seat: is_too_large(seat, topic, b"x" * 200, at))
    tool("TopicCommand", "--delete", *named)
    logs = [seat.log_dir(topic, partition) for seat in cluster.seats for partition in range(3)]
    wait_until(lambda: not any(each.exists() for each in logs))


def move(cluster, tool, plan, topic, wanted):
    """To where nothing of it was, with all that is in it."""
    before = [
        cluster.seats[leader].batches(topic, at) for at, leader in cluster.leaders(topic).items()
    ]
    moves = [{"topic": topic, "partition": at, "replicas": to} for at, to in wanted.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    asked = ("ReassignPartitionsCommand", "--reassignment-json-file", plan)
    tool(*asked, "--execute")
    is_done = [f"Reassignment of partition {topic}-{at} is completed." for at in wanted]
    wait_until(lambda: all(line in tool(*asked, "--verify").lines for line in is_done))
    for at, to in wanted.items():
        assert [cluster.seats[each].batches(topic, at) for each in to] == [before[at]] * 2
        (elsewhere,) = {0, 1, 2}.difference(to)
        left = cluster.seats[elsewhere].log_dir(topic, at)
        wait_until(lambda left=left: not left.exists())


def is_too_large(seat, topic, value, partition):
    """As the leader of the partition knows its configuration."""
    with PartitionClient(seat.address, topic, partition) as client:
        answer = client.produce(batch_of(Record(0, 0, None, value, ())))
    assert answer.error_code in (0, ErrorCode.MESSAGE_TOO_LARGE.code)
    return answer.error_code != 0


def test_a_data_directory_is_taken_over_by_the_other_kind_and_back(cluster, tool, events):
    kafka, ours, _ = cluster.seats
    turns = (
        (ours, ours.stop, KAFKA),
        (ours, ours.kill, ODRADEK),
        (kafka, kafka.stop, ODRADEK),
        (kafka, kafka.kill, KAFKA),
    )
    with Traffic(cluster.addresses, events, partitions=PARTITIONS) as traffic:
        for seat, end, kind in turns:
            traffic.wait_for_more()
            end()
            traffic.wait_for_more()
            seat.start(kind)
            cluster.wait_until_whole(events)
            elect_first(cluster, tool, events)
        traffic.wait_for_more()
    traffic.check()
    cluster.wait_until_equal(events, PARTITIONS)


@pytest.fixture(scope="module")
def java(cluster, kafka_39_jars):
    program = JavaConversation(kafka_39_jars, "LiveTransactions.java", cluster.addresses)
    with program as running:
        yield running


class JavaProducer:
    """Speaks as those of tests/support/transactional_clients.py."""

    def __init__(self, program, transactional_id):
        self._program, self._name = program, transactional_id
        self._ask("producer", configs={"transactional.id": transactional_id})
        self._ask("init")

    def _ask(self, command, **fields):
        return self._program.ask(command, name=self._name, **fields)

    def begin(self):
        self._ask("begin")

    def send(self, topic, values, *, partition):
        texts = [each.decode() for each in values]
        sent = self._ask("send", topic=topic, partition=partition, values=texts)["sent"]
        assert all(isinstance(each, int) for each in sent), sent

    def send_offset(self, group, topic, offset):
        self._ask("offsets", group=group, topic=topic, offset=offset)

    def commit(self):
        self._ask("commit")

    def abort(self):
        self._ask("abort")


@pytest.fixture(params=["java", "confluent"])
def new_producer(request, cluster):
    """Opens a transactional producer of the library, until the end of the test."""
    with ExitStack() as stack:

        def opened(transactional_id):
            if request.param == "java":
                return JavaProducer(request.getfixturevalue("java"), transactional_id)
            producers = ConfluentTransactions()
            opening = producers.producer(cluster.addresses, transactional_id)
            return stack.enter_context(opening)

        yield opened


def test_transactions_end_everywhere_whoever_coordinates_them_and_their_groups(
    cluster, tool, events, new_producer
):
    elect_first(cluster, tool, events, *INTERNAL)
    expected = []
    for at, of_group in product(cluster.seats[:2], repeat=2):
        prefix = f"{events}-{at.kind}-{of_group.kind}"
        group = cluster.name_coordinated_by(of_group, INTERNAL[0], prefix)
        producer = new_producer(cluster.name_coordinated_by(at, INTERNAL[1], prefix))
        for offset, end in ((7, producer.commit), (9, producer.abort)):
            producer.begin()
            write_everywhere(producer, events, f"{prefix} {offset}")
            producer.send_offset(group, events, offset)
            end()
        expected.append(f"{prefix} 7".encode())
        seen = partial(committed, of_group.address, group)
        wait_until(lambda seen=seen: seen() == {(events, 0): 7}, or_else=seen)
    assert committed_everywhere(cluster, events) == [expected] * PARTITIONS


def write_everywhere(producer, topic, value):
    for partition in range(PARTITIONS):
        producer.send(topic, [value.encode()], partition=partition)


def committed_everywhere(cluster, topic):
    found = []
    for partition, leader in cluster.leaders(topic).items():
        with PartitionClient(cluster.seats[leader].address, topic, partition) as client:
            found.append(settled_values(client))
    return found


def test_groups_and_copiers_go_on_when_coordinators_of_both_kinds_are_killed(cluster, tool, events):
    source, target = (created(cluster, tool, name) for name in ("source", "target"))
    topics = (events, source, target, *INTERNAL)
    elect_first(cluster, tool, *topics)
    write_numbers(cluster.addresses, events)
    kafka, ours, _ = cluster.seats
    group = cluster.name_coordinated_by(kafka, INTERNAL[0], "copiers")
    commit(cluster.addresses, group, {(source, number): 0 for number in range(PARTITIONS)})
    posts = [
        CopierOptions(
            group=group,
            source=source,
            target=target,
            transactional_id=cluster.name_coordinated_by(seat, INTERNAL[1], "copier"),
            abort_share=0.2,
            partitions=[seat.number],
        )
        for seat in cluster.seats
    ]
    crew = Crew("aiokafka", cluster.addresses, posts)
    with CopyRun(cluster.addresses, [crew], partitions=PARTITIONS) as run:
        for seat, heir in ((kafka, ours), (ours, kafka)):
            wait_until_copying([run])
            kind = seat.kind
            with reading_on(cluster, events, coordinators=(seat, heir)):
                seat.kill()
            wait_until_copying([run])
            seat.start(kind)
            elect_first(cluster, tool, *topics)
        wait_until_copying([run])
        run.finish()
        run.check()
    assert crew.count("aborted") > 0


@contextmanager
def reading_on(cluster, topic, *, coordinators):
    """A group, by the same member, at its last commit: though the second coordinates by then."""
    first, second = coordinators
    group = cluster.name_coordinated_by(first, INTERNAL[0], f"readers-{first.number}")
    reader = SoleReader(cluster.addresses, group, topic)
    reader.read(COUNT // 2)
    yield
    reader.read(COUNT // 2)
    reader.close()
    assert (reader.offsets, reader.assignments) == ([*range(COUNT)], 1)
    assert committed(second.address, group) == {(topic, 0): COUNT}
