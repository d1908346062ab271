"""The `redraft` command. Internal."""
