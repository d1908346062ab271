"""The HTTP routes of the server. Internal."""
