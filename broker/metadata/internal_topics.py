"""The topics that are the broker's own: clients are shown which they are, and write to none.

Owner: none; immutable, any thread.
"""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

#: The last is of share groups, which are not served; Kafka of this version counts it all the same.
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
