"""Verifiers: programs that check a draft. Internal."""
