"""Nodes of the loop, one step a file, and the critics, verifiers and writers that they call."""
