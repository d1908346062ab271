"""How people meet redraft: the `redraft` command, and the graphs that LangGraph's server and Studio show."""
