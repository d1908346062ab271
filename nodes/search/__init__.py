"""Branch search: several paths of refinement, each a thread of its own, on one budget. Internal."""
