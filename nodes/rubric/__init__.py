"""Scoring a draft on weighted dimensions. Internal.

Who judges, how votes are counted, and what the record says of it.
"""
