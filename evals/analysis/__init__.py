"""Statistics over finished runs: the ledger, comparison and diagnosis. Internal."""
