"""Which topics do the members of a classic group of consumers subscribe to?

What they tell one another is their affair; only the topics, at its beginning, are looked at, as
every version has them.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.protocol.compiler import prefix_decoder
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.coordinator_record import VERSION

log = logging.getLogger(__name__)

#: The protocol type of groups of consumers.
CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All together; None if a member speaks otherwise."""
    topics: set[str] = set()
    for member_metadata in metadata:
        try:
            subscription, _ = prefix_decoder(ConsumerProtocolSubscription, 0)(
                member_metadata, VERSION.size
            )
        except DecodeError as error:
            log.warning("A member's subscription cannot be read: %s", error)
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
