"""The settings of the transaction coordinator.  The names, ranges and defaults are Kafka 3.9's.

How ``__transaction_state`` is made is with the other internal topics (internal_topics.py); whether
partitions are verified, with the logs, whose producers it is about (``storage/log_settings.py``).
"""

from __future__ import annotations

from odradek.config.definition import Importance, integer
from odradek.config.settings import Settings
from odradek.protocol.records.compression import Codec


class TransactionSettings(Settings):
    """Transactions of producers, and the ids that they are known by."""

    max_timeout_ms: int = integer(
        "transaction.max.timeout.ms",
        default=15 * 60 * 1000,
        at_least=1,
        importance=Importance.HIGH,
        doc="The longest time that a producer may ask for its transactions to stay open.",
    )
    transactional_id_expiration_ms: int = integer(
        "transactional.id.expiration.ms",
        default=7 * 24 * 60 * 60 * 1000,
        at_least=1,
        importance=Importance.HIGH,
        doc="How long a transactional id is remembered that has no open transaction and is not "
        "used.",
    )
    abort_check_interval_ms: int = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        at_least=1,
        importance=Importance.LOW,
        doc="How often it is looked for transactions that have been open for too long: they are "
        "aborted, and their producers are heard no more.",
    )
    expiration_check_interval_ms: int = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        default=60 * 60 * 1000,
        at_least=1,
        importance=Importance.LOW,
        doc="How often it is looked for transactional ids that nobody uses any more.",
    )
    load_buffer_bytes: int = integer(
        "transaction.state.log.load.buffer.size",
        default=5 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="How much is read at a time when the transactions of a partition are loaded.",
    )

    @property
    def commit_timeout_ms(self) -> int:
        """How long a step may take to be replicated; Kafka waits for the transaction's timeout."""
        return 30_000

    @property
    def topic_codec(self) -> Codec:
        return Codec.NONE
