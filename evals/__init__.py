"""Evaluations of methods on datasets, and what refining changed."""
