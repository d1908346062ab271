"""The run engine of the server: queue, executions, owners and records. Internal."""
