"""Draft, critique, improve. Internal.

The steps over a record, as nodes, as arrows between branches, and as pipelines.
"""
