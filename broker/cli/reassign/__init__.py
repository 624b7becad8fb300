"""``odradek reassign``: reassign partitions to other brokers, with a throttle.

Kafka: kafka-reassign-partitions.  Plans and throttles are the same, so that one tool can finish
what the other one started.

command.py        the verbs
plans.py          reads and writes the JSON files of kafka-reassign-partitions
proposal.py       generate: assigns the replicas of topics to brokers
reassignments.py  starts, cancels and lists reassignments; the state of each partition of a plan
progress.py       waits for the end of a reassignment and shows its progress
stalls.py         finds the brokers that block a reassignment
wait_options.py   the options for waiting, and the messages when the wait ends early
log_dirs.py       describes and alters the log directories of replicas
throttles.py      sets and removes replication throttles
"""
