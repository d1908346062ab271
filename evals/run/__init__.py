"""Run methods on datasets, with one record a problem."""
