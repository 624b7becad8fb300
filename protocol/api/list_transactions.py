"""ListTransactions (key 66): the transactional ids that this broker coordinates.

    v0  introduced by KIP-664
    v1  a filter by minimum duration (KIP-994)
    v2  a filter by a regular expression for the id (KIP-1152)

An empty filter selects all. So does a negative ``duration_filter``, in milliseconds.  States:
as in ``describe_transactions.py``.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListTransactionsResponse(Message, key=66, versions="0-2", flexible="0+"):
    class Transaction(Struct):
        transactional_id: str = string()
        producer_id: int = int64()
        transaction_state: str = string()

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[Transaction] = array(Transaction)
