"""What this broker knows of the cluster, and how topics come into it by being asked for.

picture.py                brokers, topics and partitions at one moment
picture_update.py         the picture after an UpdateMetadata
metadata_cache.py         the picture of now, and waiting for another
topic_waiting.py          who waits for which topics to change
topic_view.py             a topic as Metadata answers show it
topic_creator.py          automatic creation on first use
agreed_features.py        what the whole cluster has agreed on
internal_topics.py        the topics that are the broker's own
authorized_operations.py  what anyone may do where nobody forbids anything
"""
