"""Internal topics: Metadata responses mark them, and clients may not write to them.

Owner: none; immutable, any thread.
"""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

#: The last belongs to share groups, which are not supported; this version of Kafka lists it anyway.
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
