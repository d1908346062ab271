"""Retrieval. Internal.

An index of documents, plans of queries, follow-up queries, and findings as folds of the record.
"""
