"""Draft, critique, improve: the steps over a record, as nodes, as arrows between branches, and as pipelines."""
