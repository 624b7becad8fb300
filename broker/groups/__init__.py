"""Consumer groups: who is in them, who reads what, and how far they have come.

consumer/   groups of the consumer protocol (KIP-848)
"""
