"""Exactly-once.

producer_ids.py   ids for producers, no two alike
"""
