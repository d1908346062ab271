"""The refinement of `benchmarks/loops.py` in other libraries: pydantic-graph, DSPy, and none at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loops import CRITIC_PROMPT, REFINE_PROMPT, ROUNDS, accepts, calls_in, piece, task_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["dspy_refine", "plain_loop", "pydantic_graph_loop"]


def plain_loop(model: Any, task: str) -> Callable[[], Awaitable[Any]]:
    """Return one run in a loop of `await`, which keeps no record at all."""

    async def run() -> str:
        draft, earlier = (await model.ainvoke(task)).text, []
        for number in range(ROUNDS + 1):
            said = (await model.ainvoke(CRITIC_PROMPT.format(task=task, draft=draft))).text
            if accepts(said) or number == ROUNDS:
                break
            history = "\n\n".join(earlier)
            asked = REFINE_PROMPT.format(task=task, history=history, draft=draft, feedback=said)
            earlier.append(f"{draft}\n{said}")
            draft = (await model.ainvoke(asked)).text
        return str(draft)

    return run


@dataclass
class Refinement:
    """The state of pydantic-graph's run."""

    draft: str = ""
    said: str = ""
    rounds: int = 0
    earlier: list[str] = field(default_factory=list)


def pydantic_graph_loop(model: Any, task: str) -> Callable[[], Awaitable[Any]]:
    """Return one run of a graph of three steps and a decision, with the same prompts on the same model.

    Raises:
        ImportError: pydantic-graph is not installed.
    """
    from pydantic_graph import GraphBuilder, StepContext, TypeExpression

    building: Any = GraphBuilder(state_type=Refinement, output_type=str)

    async def generate(ctx: Any) -> None:
        ctx.state.draft = (await model.ainvoke(task)).text

    async def feedback(ctx: Any) -> bool:
        """Return the next node."""
        state = ctx.state
        state.said = (await model.ainvoke(CRITIC_PROMPT.format(task=task, draft=state.draft))).text
        return not accepts(state.said) and state.rounds < ROUNDS

    async def refine(ctx: Any) -> None:
        state = ctx.state
        history = "\n\n".join(state.earlier)
        asked = REFINE_PROMPT.format(task=task, history=history, draft=state.draft, feedback=state.said)
        state.earlier.append(f"{state.draft}\n{state.said}")
        state.draft, state.rounds = (await model.ainvoke(asked)).text, state.rounds + 1

    async def answer(ctx: Any) -> str:
        return str(ctx.state.draft)

    steps = {}
    for step, gives in ((generate, None), (feedback, bool), (refine, None), (answer, str)):
        step.__annotations__ = {"ctx": StepContext[Refinement, None, Any], "return": gives}
        steps[step.__name__] = building.step(step)
    go_on = building.match(TypeExpression[bool], matches=lambda wanted: wanted).to(steps["refine"])
    end = building.match(TypeExpression[bool], matches=lambda wanted: not wanted).to(steps["answer"])
    building.add(
        building.edge_from(building.start_node).to(steps["generate"]),
        building.edge_from(steps["generate"], steps["refine"]).to(steps["feedback"]),
        building.edge_from(steps["feedback"]).to(building.decision().branch(go_on).branch(end)),
        building.edge_from(steps["answer"]).to(building.end_node),
    )
    graph = building.build()

    async def run() -> str:
        state = Refinement()
        found = await graph.run(state=state)
        if state.rounds != ROUNDS:
            raise RuntimeError(f"pydantic-graph made {state.rounds} rounds, not {ROUNDS}")
        return str(found)

    return run


def dspy_refine() -> Callable[[], Awaitable[Any]]:
    """Return one run of `dspy.Refine` that makes as many calls: 3 drafts, 3 judgements as its reward, 2 of its advice.

    Its model answers at once, below DSPy's own client, in the format that its adapter reads.

    Raises:
        ImportError: DSPy is not installed.
    """
    import dspy
    from dspy.lm15 import Message, Response, Usage

    asked, task, critique = [0], task_of(0.1), piece(0.4, 1)

    class Engine:
        def complete(self, request: Any) -> Any:
            asked[0] += 1
            last = str(request.messages[-1].parts)
            fields = {"sentence": piece(0.4, 997 * asked[0]), "verdict": critique}
            if "program_trajectory" in last:
                fields = {"discussion": critique, "advice": '{"write": "Begin with the river."}'}
            elif "[[ ## draft ## ]]" in last:
                del fields["sentence"]
            else:
                del fields["verdict"]
            text = "\n\n".join(f"[[ ## {name} ## ]]\n{said}" for name, said in fields.items())
            message = Message.assistant(f"{text}\n\n[[ ## completed ## ]]")
            usage = Usage(input_tokens=40, output_tokens=20, total_tokens=60)
            return Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)

    class Writer(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.write = dspy.Predict("task -> sentence")

        def forward(self, task: str) -> Any:
            return self.write(task=task)

    judge = dspy.Predict("task, draft -> verdict")

    def reward(given: Any, found: Any) -> float:
        return float(accepts(judge(task=given["task"], draft=found.sentence).verdict))

    lm = dspy.LM("openai/answering", engine=Engine(), cache=False)
    refine = dspy.Refine(module=Writer(), N=3, reward_fn=reward, threshold=1.0)

    async def run() -> str:
        before = asked[0]
        with dspy.context(lm=lm, warn_on_type_mismatch=False):  # it warns of what Refine itself sends
            found = refine(task=task)
        if asked[0] - before != calls_in(ROUNDS):
            raise RuntimeError(f"dspy.Refine made {asked[0] - before} calls, not {calls_in(ROUNDS)}")
        return str(found.sentence)

    return run
