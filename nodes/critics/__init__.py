"""Critics: who judges a draft, and in what order."""
