"""Groups of the consumer protocol (KIP-848): the broker assigns, members only tell and are told.

A group has an epoch, which grows with every change of its members, of what they subscribe to and of
the topics.  For each epoch there is a target, computed by an assignor: who shall have what.  By its
heartbeats a member is led from what it has to what it shall have; it gives up before others get.

partitions.py        sets of partitions, and their form on the wire and in the log
assignor.py          what an assignor is given
assign_range.py      consecutive partitions of each topic
assign_uniform.py    as even and as sticky as can be, where all subscribe to the same
assign_mixed.py      the same where they do not
assignors.py         the assignors by name

topics.py            the cluster's topics as groups see them
metadata_hash.py     a number that changes when the topics of a group do
regular_expression.py  whether a name matches an expression, by the rules of RE2
expressions.py       which of the cluster's topics an expression matches

member.py            one member: what it told of itself, and what it has
records.py           the records of the log, both ways
group.py             one group, and how records change it
draft.py             a decision in the making
target.py            when there is a new epoch, and who shall have what in it
reconcile.py         how a member is led to what it shall have
heartbeat.py         what a member is told
leaving.py           members that go
heartbeat_request.py which requests make sense, and their meaning

live_group.py        a group at work: its log, and its timers
requests.py          what members ask for, led to their group
migration.py         groups that pass from the classic protocol to this one, and back
classic_members.py   members of the classic protocol in such a group
classic_blobs.py     what those tell one another
"""
