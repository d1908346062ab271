"""Critics of a draft: models, programs, verifiers and people. Internal."""
