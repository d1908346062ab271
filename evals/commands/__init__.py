"""Commands of evaluations. Internal."""
