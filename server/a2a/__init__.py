"""Agent2Agent protocol: each assistant as an agent, whose tasks are runs and whose contexts are threads. Internal."""
