"""Records of OpenAI evals: a JSONL file with a `spec`, events and a `final_report`. Internal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, flattened

if TYPE_CHECKING:
    from .sources import Source

__all__ = ["is_openai_evals", "read_openai_evals"]

QUIET = ("sampling", "raw_sample", "function_call", "cond_logp", "extra")
"""Events that say what was asked and answered, and judge nothing."""


def is_openai_evals(source: Source) -> bool:
    """Return True if a file has events as `oaieval` records them."""
    return any({"event_id", "sample_id", "type", "data"} <= row.keys() for row in source.head)


def read_openai_evals(source: Source) -> Log:
    """Return the samples; each field of each judging event may be the verdict: `match.correct`."""
    spec: dict[str, Any] = {}
    samples: dict[str, dict[str, Any]] = {}
    for where, row in source.rows():
        if isinstance(row.get("spec"), dict):
            spec = row["spec"]
        data = row.get("data")
        if row.get("sample_id") is None or not isinstance(data, dict):
            continue
        one = samples.setdefault(as_text(row["sample_id"]), {"where": where, "scores": {}, "told": {}})
        kind = as_text(row.get("type"))
        if kind in QUIET:
            one["told"].setdefault("prompt", data.get("prompt"))
            one["told"]["sampled"] = data.get("sampled")
        elif kind == "error":
            one["told"]["error"] = as_text(data.get("message") or data.get("type") or "error")
        else:
            for name, value in flattened(data).items():
                field = f"{kind}.{name}"
                if one["scores"].get(field, value) != value:
                    raise ValueError(f"{source.path}, {where}: sample {row['sample_id']!r} has two values of {field!r}")
                one["scores"][field] = value
            one["told"]["gold"] = data.get("expected", data.get("options"))
    judged = {name: one for name, one in samples.items() if one["scores"] or one["told"].get("error")}
    functions = [as_text(one) for one in spec.get("completion_fns") or ()]
    return Log(
        source.path,
        "OpenAI evals record",
        [
            Entry(
                one["where"],
                {"sample_id": name},
                {key: value for key, value in one["scores"].items() if key not in TEXTS},
                task=_prompt(one["told"].get("prompt")),
                text=_sampled(one["told"].get("sampled")),
                gold=as_text(one["told"].get("gold")) or None,
                model="+".join(functions),
                error=one["told"].get("error"),
            )
            for name, one in judged.items()
        ],
        ("sample_id",),
        dataset=as_text(spec.get("base_eval") or spec.get("eval_name")),
        method="+".join(functions),
    )


def _prompt(value: Any) -> str:
    if isinstance(value, list):
        return "\n\n".join(as_text(one.get("content")) for one in value if isinstance(one, dict))
    return as_text(value)


def _sampled(value: Any) -> str:
    return as_text(value[0] if isinstance(value, list) and len(value) == 1 else value)


TEXTS = ("match.expected", "match.picked", "match.sampled", "match.options", "match.prompt")
