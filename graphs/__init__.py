"""Wiring, and nothing else: the loop, and the presets built on it."""
