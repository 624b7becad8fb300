"""What a log knows of the producers that write to it.

append.py               may this producer append this batch
state.py                sequences, epochs and open transactions of all producers
snapshot.py             .snapshot: producers as they were at an offset
recall.py               a producer's last batches, remembered across a restart
verification_guards.py  producers being looked up at their coordinator
"""
