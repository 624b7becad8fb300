"""Classic groups: members join, the broker elects a leader among them, and the leader assigns.

Kafka: ClassicGroup, ClassicGroupMember, ClassicGroupState, and the classic half of
GroupMetadataManager.

state.py        the states, the valid transitions, and the error of each API in each state
messages.py     the JoinGroup request, and the results of JoinGroup and SyncGroup
member.py       one member: its protocols, its assignment and its waiting requests
group_metadata.py       the members of a group, its generation, protocol and leader; no I/O
subscriptions.py  the topics that members subscribe to
group.py        the group: its timers, its rebalances, its records in the log
join.py         JoinGroup: new, known and static members
sync.py         SyncGroup: store the leader's assignment and return it to the members
leave.py        LeaveGroup: a member leaves, or an operator removes it
requests.py     the entry points: find the group of a request and pass the request on
"""
