"""Python imports a module of this name when it starts: so each process that the examples start records, too."""

import os

from redraft.models import specs

if os.environ.get("REDRAFT_RECORD"):
    build = specs._build

    def recorded(spec, options):
        """Build a model; "replay" as the one that is recorded."""
        if spec != "replay":
            return build(spec, options)
        from example_recorder import recorder  # here, since it imports LangChain

        return recorder(build, options)

    specs._build = recorded
