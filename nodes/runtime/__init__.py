"""Runtime of a node: its calls, what they cost, and the journal that lets no finished call be paid for twice. Internal.

**Which call is which.** A reply is kept for its thread, under a hash of the node (with the graph that it is part of,
and which of several sent at once it is), how many events the record held when it was asked (failures and verdicts left
out), the model with its settings, the messages, and the how-many-th equal call of that execution of the node this is.
So samples of one prompt are calls of their own, whatever order they come in; a later round asks anew, also with an
equal prompt; and a node that is executed again, since a process died, an error or a person came in between, a caller
goes on from an old checkpoint, or nothing was saved yet (`durability="exit"`), finds each reply where it was. A fork, a
`rerun` and a new task of the thread are other runs: they pay.

**What counts.** A reply from the journal passes the callbacks of its model: its tokens, its dollars, and the time that
it took count as they did, so budgets decide the same. `usage["reused_calls"]` says how many there were. Where the
record holds the failure of an earlier try, its replies were counted there, and are not counted again. Whoever streams
the messages sees a reply at once, whole.

**What is kept.** Every reply of a chat model, also one that is refused or cut off: the run went on from it, and goes
the same way again. An error is no reply. Where a node fails for another reason than a model that did not answer, for a
first draft is empty or a verdict can't be read, say, its replies are forgotten, since with them it would fail again:
resumed, it asks anew. A row holds the reply as JSON and its hash; it goes with its thread.

**Where.** In the savers of `open_checkpointer`. Every LangChain chat model that a node calls takes part, in chains,
agents and critics of a user's own as well; a model built with `cache=False`, or with a cache of its own, does not. A
thread has one runner, so no call is in flight twice: see `redraft.state.storage.leases`.
"""
