"""Threads: kept runs that are resumed, read, forked and replayed. Internal."""
