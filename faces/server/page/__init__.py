"""The page at `/`: runs started, watched, compared and forked in a browser; what it shows is drawn by `views`."""

from __future__ import annotations
