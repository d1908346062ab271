"""Mending: the ladder of ways to revise a draft that verifiers rejected. Internal."""
