"""Checkpoint savers and what they keep beside checkpoints. Internal."""
