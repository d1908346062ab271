"""Prompts improved by reflection on what was said of their drafts, with gepa. Internal."""
