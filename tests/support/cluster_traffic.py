"""A producer and a consumer of one topic, which go on whatever happens to a cluster.

    with Traffic(cluster.addresses, "events", partitions=3) as traffic:
        traffic.wait_for_more()
    traffic.check()

Owner: the thread of the test; both have one of their own.
"""

from typing import Any, Self

from tests.support.group_members import wait_until
from tests.support.persistent_load import PersistentConsumer, PersistentProducer, check

ENOUGH = 200


#: Of producers that ask for little: whoever leads next may lack what they have written.
LOOSE = {"enable.idempotence": False, "acks": "1"}


class Traffic:
    """Idempotent, and acknowledged by all replicas in sync; unless it is told otherwise."""

    def __init__(self, addresses: str, topic: str, *, partitions: int, **more: Any) -> None:
        self._producer = PersistentProducer(
            addresses, topic, name="producer", partitions=partitions, **more
        )
        self._consumer = PersistentConsumer(addresses, topic, partitions=partitions)

    def __enter__(self) -> Self:
        self._producer.start()
        self._consumer.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._producer.stop()
        self._consumer.wait_for_values(self._producer.acknowledged)
        self._consumer.stop()

    def wait_for_more(self) -> None:
        """So many that there are some for each partition."""
        wanted = len(self._producer.acknowledged) + ENOUGH
        wait_until(lambda: len(self._producer.acknowledged) >= wanted)

    def check(self) -> None:
        """When it is over: nothing acknowledged is lost, twice there, or out of order.

        Neither for who has read all the while nor for who reads from the start by now.
        """
        check([self._producer], [self._consumer])
