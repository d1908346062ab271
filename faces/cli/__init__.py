"""The `redraft` command."""
