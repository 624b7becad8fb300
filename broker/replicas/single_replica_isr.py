"""The ISR manager of a broker without other brokers: no follower lags, nothing is proposed.

Owner: none; immutable, any thread.
"""


class SingleReplicaIsr:
    """Has the interface of AlterPartitionManager."""

    lag_max_ms = 0

    def now_ms(self) -> int:
        return 0

    def submit(self, partition: object, isr: frozenset[int]) -> None:
        raise AssertionError(f"{partition}: ISR change to {isr} without other brokers")

    def is_eligible(self, replica_id: int) -> bool:
        return False
