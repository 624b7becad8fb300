"""The settings of replicas on one broker.  The names, ranges and defaults are Kafka 3.9's."""

from odradek.config.definition import Importance, long
from odradek.config.settings import Settings


class ReplicationSettings(Settings):
    """When it is written down what all replicas have."""

    high_watermark_checkpoint_interval_ms: int = long(
        "replica.high.watermark.checkpoint.interval.ms",
        default=5_000,
        importance=Importance.HIGH,
        doc="How often high watermarks are written down.",
    )
