"""Agents in the loop: run whole for a draft, and judges that use tools. Internal."""
