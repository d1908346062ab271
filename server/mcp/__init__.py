"""Model Context Protocol: the presets as tools of other agents, over HTTP and over stdin and stdout. Internal."""
