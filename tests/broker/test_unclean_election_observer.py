"""When the controller is notified that a topic enables unclean leader election."""

from odradek.broker.unclean_election_observer import UncleanElectionObserver
from odradek.storage.settings import TopicSettings


def test_only_a_topic_that_enables_unclean_election_itself_is_reported():
    allowed = []
    elections = UncleanElectionObserver(allowed.append)
    elections.configure("unclean", TopicSettings(unclean_leader_election_enable=True))
    elections.configure("clean", TopicSettings())
    elections.configure("gone", None)
    elections.configure_defaults(TopicSettings(unclean_leader_election_enable=True))
    assert allowed == ["unclean"]
