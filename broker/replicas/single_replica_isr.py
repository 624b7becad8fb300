"""In-sync replicas of a broker that has no other beside it: nobody lags, and nothing is proposed.

Owner: none; immutable, any thread.
"""


class Alone:
    """Has the face of InSyncReplicas."""

    lag_max_ms = 0

    def now_ms(self) -> int:
        return 0

    def propose(self, partition: object, in_sync: frozenset[int]) -> None:
        raise AssertionError(f"{partition} is to have {in_sync} in sync")

    def is_eligible(self, replica_id: int) -> bool:
        return False
