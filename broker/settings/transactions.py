"""Settings of the transaction coordinator.  Names, ranges and defaults are Kafka 3.9's.

The settings of ``__transaction_state`` are in internal_topics.py.  The setting for the verification
of partitions is in ``storage/log_settings.py``, because it concerns the producer state of the logs.
"""

from __future__ import annotations

from odradek.config.definition import Importance, integer
from odradek.config.settings import Settings
from odradek.protocol.records.compression import Codec


class TransactionSettings(Settings):
    """Settings of transactions and transactional ids."""

    max_timeout_ms: int = integer(
        "transaction.max.timeout.ms",
        default=15 * 60 * 1000,
        at_least=1,
        importance=Importance.HIGH,
        doc="The maximum transaction timeout that a producer may request.",
    )
    transactional_id_expiration_ms: int = integer(
        "transactional.id.expiration.ms",
        default=7 * 24 * 60 * 60 * 1000,
        at_least=1,
        importance=Importance.HIGH,
        doc="How long an unused transactional id without an open transaction is kept.",
    )
    abort_check_interval_ms: int = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        at_least=1,
        importance=Importance.LOW,
        doc="The interval of the check for timed-out transactions, which are aborted and whose "
        "producers are fenced.",
    )
    expiration_check_interval_ms: int = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        default=60 * 60 * 1000,
        at_least=1,
        importance=Importance.LOW,
        doc="The interval of the check for expired transactional ids.",
    )
    load_buffer_bytes: int = integer(
        "transaction.state.log.load.buffer.size",
        default=5 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of bytes per read when a partition of `__transaction_state` is loaded.",
    )

    @property
    def commit_timeout_ms(self) -> int:
        """The replication timeout of a state change; Kafka uses the transaction's timeout."""
        return 30_000

    @property
    def topic_codec(self) -> Codec:
        return Codec.NONE
