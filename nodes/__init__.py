"""One step each: the nodes of the loop, and the critics and verifiers that judge a draft."""
