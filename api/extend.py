"""The extension interface: what a preset, a critic, a verifier, a pipeline step or a saver of your own is made of.

`redraft` itself has what users need; these names are for packages that add to it, and keep their meaning from one
release to the next as those do. Each is imported when it is first used. `examples/redraft_haiku` is a package built on
nothing else. Register what you make by an entry point:

    [project.entry-points."redraft.presets"]  # or redraft.critics, redraft.verifiers, redraft.steps
    haiku = "my_package:PRESET"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy_names

if TYPE_CHECKING:
    from .graphs.loop import TASK_ONLY
    from .graphs.preset import ASK, DOCUMENTS, HUMAN, INDEX, JUDGE, THRESHOLD, TOP_K, Option, Preset, Served
    from .graphs.registry import build_preset, find_preset
    from .models.specs import as_model
    from .nodes.critics.model_critic import ModelCritic
    from .nodes.critics.registry import CriticKind, as_critics, named_critic
    from .nodes.critics.structured_replies import StructuredModel, UnreadableReplyError
    from .nodes.fingerprint import fingerprint
    from .nodes.reasoning.pipeline_language import StepKind
    from .nodes.runtime.step import DualRunnable, Step, call, emit
    from .nodes.verify.text_verifiers import named
    from .nodes.verify.verifiers import VerifierKind
    from .nodes.writing.prompt_injection import fenced_messages
    from .nodes.writing.prompts import PromptedModel, chat_prompt, prompt_values, seen_by_refiner
    from .nodes.writing.replies import read_text
    from .nodes.writing.sampling import revising_model, sampled
    from .nodes.writing.writers import EvidenceWriter, as_writer
    from .state.critique import DualCritic
    from .state.dual import Do, DualCallable, calling
    from .state.storage.database_saver import DatabaseSaver
    from .state.storage.group_writer import Committer
    from .state.storage.index import RunIndex
    from .state.storage.journal import Journal
    from .state.storage.leases import Leases
    from .state.summary import latest_draft, rounds
    from .state.threads.checked_graph import compiled
    from .state.threads.kind import GraphKind, kind_of
    from .state.threads.loop_kind import LoopKind

MEANINGS = {
    "redraft.graphs.loop": {
        "TASK_ONLY": "options of `build_refine_graph` for a preset that is no chat",
    },
    "redraft.graphs.preset": {
        "DOCUMENTS": "the shared option `documents`",
        "ASK": "the shared option `ask`: about each draft, or where the run would end without an accepted answer",
        "HUMAN": "the shared option `human`: a person is asked after all others",
        "INDEX": "the shared option `index`",
        "JUDGE": "the shared option `judge`: a calibrated judge",
        "THRESHOLD": "the shared option `threshold`",
        "TOP_K": "the shared option `top_k`",
        "Option": "an option of a preset: builder parameter, flag and recipe key in one",
        "Preset": "a graph that is built by name, on every face",
        "Served": "how a server and Studio offer a preset",
    },
    "redraft.graphs.registry": {
        "build_preset": "builds a preset's graph by name",
        "find_preset": "a preset by name",
    },
    "redraft.models.specs": {
        "as_model": "the chat model that a text names, or the one that is given",
    },
    "redraft.nodes.critics.model_critic": {
        "ModelCritic": "a critic that asks a model for a verdict",
    },
    "redraft.nodes.critics.registry": {
        "CriticKind": "a critic that `--critic`, recipes, `eval`, `calibrate` and `serve` know by name",
        "as_critics": "critics, with the chat models among them as critics that ask them",
        "named_critic": "the critic that a text names",
    },
    "redraft.nodes.critics.structured_replies": {
        "StructuredModel": "a model whose replies are read as a pydantic form",
        "UnreadableReplyError": "a reply that is none of that form",
    },
    "redraft.nodes.fingerprint": {
        "fingerprint": "what tells a graph from one with other prompts, models or options",
    },
    "redraft.nodes.reasoning.pipeline_language": {
        "StepKind": "a step that pipelines know by name",
    },
    "redraft.nodes.runtime.step": {
        "DualRunnable": "a Runnable of this kind",
        "Step": "a node whose logic is a generator",
        "call": "a counted, journaled call within a step's logic",
        "emit": "streams progress",
    },
    "redraft.nodes.verify.text_verifiers": {
        "named": "gives a verifier its name, and tells writers what it wants",
    },
    "redraft.nodes.verify.verifiers": {
        "VerifierKind": "a verifier that `--verify` knows by name",
    },
    "redraft.nodes.writing.prompt_injection": {
        "fenced_messages": "messages of a template, with what others wrote quoted as data",
    },
    "redraft.nodes.writing.prompts": {
        "PromptedModel": "a writer that asks a model with a prompt",
        "chat_prompt": "a prompt as checked chat templates",
        "prompt_values": "what a prompt may show of a run",
        "seen_by_refiner": "what a refiner is shown, by the options of a graph",
    },
    "redraft.nodes.writing.replies": {
        "read_text": "the text of a reply, without its reasoning",
    },
    "redraft.nodes.writing.sampling": {
        "revising_model": "a model for revisions, sampled",
        "sampled": "a model that samples, so that it does not repeat itself",
    },
    "redraft.nodes.writing.writers": {
        "EvidenceWriter": "a refiner with a prompt of its own after programs found something",
        "as_writer": "a callable, Runnable or graph as a writer",
    },
    "redraft.state.critique": {
        "DualCritic": "a critic of this kind",
    },
    "redraft.state.dual": {
        "Do": "a call that a generator wants made, sync or async",
        "DualCallable": "a writer whose logic is a generator, written once for sync and async",
        "calling": "the `Do` of a function",
    },
    "redraft.state.storage.database_saver": {
        "DatabaseSaver": "a saver over a database: checkpoints, index, journal and leases in one transaction",
    },
    "redraft.state.storage.group_writer": {
        "Committer": "writes what a saver of your own was given, many at once",
    },
    "redraft.state.storage.index": {
        "RunIndex": "the table of threads of a saver",
    },
    "redraft.state.storage.journal": {
        "Journal": "the replies of finished calls",
    },
    "redraft.state.storage.leases": {
        "Leases": "who runs a thread",
    },
    "redraft.state.summary": {
        "latest_draft": "the last draft of a record",
        "rounds": "how often a draft was revised",
    },
    "redraft.state.threads.checked_graph": {
        "compiled": "compiles a graph of your own, with the rules of its threads",
    },
    "redraft.state.threads.kind": {
        "GraphKind": "the rules of a graph's threads: how they begin, go on, fork and are read",
        "kind_of": "the kind of a compiled graph",
    },
    "redraft.state.threads.loop_kind": {
        "LoopKind": "the kind of graphs that `build_refine_graph` builds",
    },
}
"""By the module that has it, each name and what it is."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {module: [*names] for module, names in MEANINGS.items()})

__all__ = [
    "ASK",
    "DOCUMENTS",
    "HUMAN",
    "INDEX",
    "JUDGE",
    "TASK_ONLY",
    "THRESHOLD",
    "TOP_K",
    "Committer",
    "CriticKind",
    "DatabaseSaver",
    "Do",
    "DualCallable",
    "DualCritic",
    "DualRunnable",
    "EvidenceWriter",
    "GraphKind",
    "Journal",
    "Leases",
    "LoopKind",
    "ModelCritic",
    "Option",
    "Preset",
    "PromptedModel",
    "RunIndex",
    "Served",
    "Step",
    "StepKind",
    "StructuredModel",
    "UnreadableReplyError",
    "VerifierKind",
    "as_critics",
    "as_model",
    "as_writer",
    "build_preset",
    "call",
    "calling",
    "chat_prompt",
    "compiled",
    "emit",
    "fenced_messages",
    "find_preset",
    "fingerprint",
    "kind_of",
    "latest_draft",
    "named",
    "named_critic",
    "prompt_values",
    "read_text",
    "revising_model",
    "rounds",
    "sampled",
    "seen_by_refiner",
]
