"""The producer state of a log: idempotent producers and open transactions.

Kafka: ProducerStateManager, ProducerStateEntry, ProducerAppendInfo, VerificationStateEntry.

producer_state_entry.py     the state of one producer, and the checks of its batches
producer_state_manager.py   the states of all producers of a partition
unstable_transactions.py    transactions that are open or completed above the high watermark
snapshot.py                 ``.snapshot`` files: the producer state at an offset
batch_metadata_recovery.py  restores the last batches of each producer after a restart
verification_guards.py      producers whose transaction is being verified by the coordinator
"""
