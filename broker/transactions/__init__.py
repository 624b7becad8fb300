"""Transactions: producer ids and the transaction coordinator.

Kafka: TransactionCoordinator, TransactionStateManager, TransactionMetadata, ProducerIdManager,
TransactionMarkerChannelManager and AddPartitionsToTxnManager.

    producer_id_manager.py     generates producer ids from blocks of the controller
    transaction_state.py       the states of a transactional id, their transitions, the metadata
    decisions.py               decides the next state, or rejects a request: pure functions
    records.py                 the records of ``__transaction_state``
    shard.py                   one partition of ``__transaction_state``: appends and applies
    coordinator.py             handles the requests for a transactional id
    marker_channel_manager.py  writes markers to all partitions of a transaction, with retries
    marker_channel.py          sends markers to one broker
    add_partitions_to_txn_manager.py  verifies that a partition is in an ongoing transaction
    expiry.py                  aborts timed-out transactions and removes expired transactional ids
    context.py                 clock, producer ids, settings and tasks
"""
