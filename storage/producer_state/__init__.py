"""What a log knows of the producers that write to it.

append.py               may this producer append this batch
state.py                sequences and epochs of all producers
unstable.py             transactions that are open, or have ended above the high watermark
snapshot.py             .snapshot: producers as they were at an offset
recall.py               a producer's last batches, remembered across a restart
verification_guards.py  producers being looked up at their coordinator
"""
