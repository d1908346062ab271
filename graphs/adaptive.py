"""Preset `adaptive`: one draft, judged by evidence, then samples and revisions by what has worked. Internal.

A draft that is accepted ends the run, and one that the evidence can't tell about stands as it is. Else `check` chooses
between a fresh sample and a revision, and says why in its verdict. When no way is worth another try, drafts and
programs whose answers agree vote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models.specs import as_model
from ..nodes.arguments import check_lists
from ..nodes.critics.critics import HumanCritic, VerifierCritic, verifier_critic
from ..nodes.generate import CHECKED_GENERATE_PROMPT, GENERATE_PROMPT
from ..nodes.mending.ladder import wishes
from ..nodes.refine import REFINE_PROMPT
from ..nodes.writing.prompts import PromptedModel, seen_by_refiner
from ..nodes.writing.sampling import sampled
from ..nodes.writing.writers import AdaptiveWriter
from ..state.stopping import Arm
from .loop import RefineGraph, build_refine_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel

    from ..state.critique import AnyVerifier

__all__ = ["ADAPTIVE_ARMS", "build_adaptive_graph"]

ADAPTIVE_ARMS = (Arm("sample", tries=2), Arm("revise", tries=2))
"""Fresh samples first: at equal tokens, repairs seldom beat them (Olausson et al., arXiv 2306.09896)."""
ADAPTIVE_RUNGS = (Arm("sample", tries=2), Arm("mend", tries=1), Arm("rewrite", tries=2))
"""The same where verifiers say what they want: revisions go up the ladder of `refine`."""


def build_adaptive_graph(
    model: BaseChatModel | str,
    *,
    critics: Sequence[Any] = (),
    verifiers: Sequence[AnyVerifier | str] = (),
    arms: Sequence[Arm] | None = None,
    **options: Any,
) -> RefineGraph:
    """Return the loop that chooses between fresh samples and revisions by what has worked.

    Tokens, dollars and seconds of `limits` are shared by all that a run tries. The presets `math` and `code` have arms
    of their own for word problems and Python functions.

    Args:
        model: Writes drafts, samples and revisions.
        critics: The evidence: a `program_critic`, `human_critic()`, or models that judge.
        verifiers: More of it, as in `build_refine_graph`.
        arms: In order of preference, see `redraft.nodes.Arm`: `sample` and `revise`, or where verifiers judge and no
            `refine_prompt` is given, `sample`, `mend` and `rewrite` (see `rungs` of `build_refine_graph`).
        options: Everything else that `build_refine_graph` takes. `keep` is `"vote"` where it is not given, the
            `max_rounds` of `limits` as many as the arms may try in vain.

    Raises:
        ValueError: At build: there is no evidence, an arm has another name, or as in `build_refine_graph`.

    Example:
        >>> from redraft import build_adaptive_graph, uses_words, verifier_critic
        >>> from redraft.models import ScriptedModel
        >>> critics = [verifier_critic(uses_words("rain", "roof"))]
        >>> graph = build_adaptive_graph(ScriptedModel(["Rain.", "Rain on a roof."]), critics=critics)
        >>> graph.invoke({"task": "Write about rain."})["answer"]
        'Rain on a roof.'
    """
    check_lists(critics=critics, verifiers=verifiers, arms=arms)
    typed = options.get("answer_type") is not None
    if not verifiers and not typed and all(isinstance(critic, HumanCritic) for critic in critics):
        raise ValueError(
            "adaptive chooses by evidence: give --verify (verifiers=) or --critic (critics=), program for numbers or "
            "tests for code; the presets math and code have theirs"
        )
    checked = typed or bool(verifiers) or any(isinstance(critic, VerifierCritic) for critic in critics)
    names = [getattr(arm, "name", None) for arm in arms or ()]
    climbs = checked and "refine_prompt" not in options and "revise" not in names
    arms = _known_arms(arms, ADAPTIVE_RUNGS if climbs else ADAPTIVE_ARMS)
    tries = sum(arm.tries for arm in arms)
    options = {"keep": "vote", **options, "limits": {"max_rounds": tries, **(options.get("limits") or {})}}
    if climbs:
        return build_refine_graph(
            model, critics=critics, verifiers=verifiers, rungs=arms, **{"name": "adaptive", **options}
        )
    model = as_model(model)
    # Sampled, since a model that is sure of itself writes the same again.
    later = sampled(model)
    judges = [*map(verifier_critic, verifiers), *critics]  # once: a text may name a file
    requirements = wishes(judges) if options.get("tell_checks", True) else ""
    seen = {**seen_by_refiner(options), "told": requirements}
    first = options.setdefault("generate_prompt", CHECKED_GENERATE_PROMPT if requirements else GENERATE_PROMPT)
    writers = {
        "sample": PromptedModel(later, first, what="generate_prompt", told=requirements, own=seen.get("own", ())),
        "revise": PromptedModel(later, options.pop("refine_prompt", REFINE_PROMPT), what="refine_prompt", **seen),
    }
    refine = AdaptiveWriter({arm.name: writers[arm.name] for arm in arms}, arms)
    defaults = {"refine": refine, "name": "adaptive"}
    return build_refine_graph(model, critics=judges, **{**defaults, **options})


def _known_arms(arms: Sequence[Arm] | None, default: Sequence[Arm]) -> Sequence[Arm]:
    """Return the arms given, each one of those that there are; by default these."""
    names = [arm.name for arm in default]
    for arm in arms or ():
        if not isinstance(arm, Arm):
            raise TypeError(f"each of arms is an Arm(name, tries=…), not {arm!r:.200}")
        if arm.name not in names:
            listed = " and ".join([", ".join(map(repr, names[:-1])), repr(names[-1])])
            raise ValueError(f"arms are {listed} here, not {arm.name!r}; refine=AdaptiveWriter(…) takes any")
    return default if arms is None else arms
