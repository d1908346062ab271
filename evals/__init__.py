"""Whether refining helped: results of methods on datasets."""
