"""Scoring a draft on weighted dimensions: who judges, how votes are counted, and what the record says of it."""
