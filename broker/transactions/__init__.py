"""Exactly-once.

producer_ids.py   ids for producers, no two alike
verification.py   may this producer write to this partition now?
"""
