"""Classic groups: members join, the broker names a leader among them, and the leader assigns.

state.py        the states, the moves between them, and what each request is told in each
outcomes.py     what is asked by JoinGroup, and what it and SyncGroup are answered
member.py       one member: what it offers, what it was assigned, what it waits for
roster.py       the members of a group, its generation, protocol and leader; pure
subscriptions.py  the topics that members subscribe to
group.py        the group as a whole: its timers, its rebalances, its log
join.py         who may join, and what comes of it
sync.py         the leader's assignment, handed out
leave.py        leaving, and being made to
requests.py     what members ask for, led to their group
"""
