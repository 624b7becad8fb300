"""``odradek reassign``: partitions are moved to other brokers, and what that costs is bounded.

command.py       its verbs
plans.py         where partitions are to be, in files as kafka-reassign-partitions has them
proposal.py      where they might be: generate
moves.py         what is under way: begun, cancelled, and how far it is
progress.py      waiting until all is moved, and showing how far it is
held_up.py       for which brokers partitions wait meanwhile
waiting.py       how long, and what is said if the end is not reached
directories.py   in which log directories they are, and shall be
throttles.py     how fast replicas may move

Plans and throttles are those of Kafka's tool, so one may begin what the other ends.
"""
