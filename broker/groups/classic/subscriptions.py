"""The topics that the members of a classic group of consumers subscribe to.

Member metadata is opaque to the broker, except for the topics at its beginning, where every version
has them.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.protocol.compiler import prefix_decoder
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.coordinator_record import VERSION

log = logging.getLogger("kafka.coordinator.group")

#: The protocol type of consumers.
CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all members; None if a member's metadata has another format."""
    topics: set[str] = set()
    for member_metadata in metadata:
        try:
            subscription, _ = prefix_decoder(ConsumerProtocolSubscription, 0)(
                member_metadata, VERSION.size
            )
        except DecodeError as error:
            log.warning("Failed to parse the subscription of a group member: %s", error)
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
