"""``odradek transactions``: transactional ids, their transactions, and those that hang.

command.py       its verbs; list, describe and describe-producers
hanging.py       find-hanging and abort
lookup.py        what the cluster says of transactions and of producers

A transaction hangs in a partition if records of it are there and its coordinator does not know of
it, so that nobody will ever end it; consumers that read committed stop before it.  All is asked
over connections of our own, as confluent-kafka has no function for any of it.
"""
