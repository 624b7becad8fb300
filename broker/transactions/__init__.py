"""Exactly-once: producer ids, and the coordinator of transactions.

producer_ids.py        ids for producers, no two alike
transaction_state.py   states, the moves between them, and what is known of a transaction
decisions.py           what becomes of a transaction: pure, and may refuse
records.py             what is in the log
shard.py               one partition of the log: a decision is written, then takes effect
coordinator.py         what is asked of a transactional id
markers.py             telling partitions how a transaction has ended, until all of them know
marker_link.py         markers to one broker
verification.py        may this producer write to this partition now?
expiry.py              transactions open for too long, ids that nobody uses
world.py               time, ids and settings
"""
