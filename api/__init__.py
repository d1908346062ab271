"""LangGraph workflows that draft, get feedback, check and refine, and show whether refining helped."""
