"""Writers of drafts and revisions: prompts, replies, sampling. Internal."""
