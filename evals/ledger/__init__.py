"""Ledgers: what refining fixed, broke and cost, computed from finished runs."""
