"""Datasets, their problems and their scorers. Internal."""
