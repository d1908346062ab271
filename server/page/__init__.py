"""The page at `/`. Internal.

Runs started, watched, compared and forked in a browser; what it shows is drawn by `views`.
"""
