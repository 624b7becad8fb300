"""``odradek reassign``: partitions are moved to other brokers, and what that costs is bounded.

command.py     its verbs
plans.py       where partitions are to be, in files that kafka-reassign-partitions reads and writes
proposal.py    where they might be: generate
moves.py       what is under way: begun, cancelled, and how far it is
progress.py    waiting until all is moved, and showing how far it is
throttles.py   how fast replicas may move

Plans and throttles are those of Kafka's tool, so one may begin what the other ends.
"""
