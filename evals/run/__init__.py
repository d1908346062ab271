"""Runs of methods on datasets, one result record a problem. Internal."""
