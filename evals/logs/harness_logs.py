"""Logs of test harnesses: Inspect, lm-evaluation-harness, OpenAI evals, promptfoo and DeepEval. Internal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .entries import Entry, Log, as_text, flattened, is_number
from .inspect_rules import scores_by_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .sources import Source

__all__ = [
    "is_deepeval",
    "is_inspect",
    "is_lm_eval",
    "is_openai_evals",
    "is_promptfoo",
    "read_deepeval",
    "read_inspect",
    "read_lm_eval",
    "read_openai_evals",
    "read_promptfoo",
]

LM_EVAL_FIELDS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
"""Those of a sample that are no metric's value."""
QUIET_EVENTS = ("sampling", "raw_sample", "function_call", "cond_logp", "extra")
"""Events of OpenAI evals that hold a prompt and its reply, and judge nothing."""
MATCH_TEXTS = ("match.expected", "match.picked", "match.sampled", "match.options", "match.prompt")
NO_ANSWER = 2
"""promptfoo's `failureReason` of a result without an answer; 1 is an assertion that failed."""
INSPECT_LETTERS: dict[str, bool | float] = {"C": True, "I": False, "N": False, "P": 0.5}
"""Correct, incorrect, no answer, partially correct."""
JOURNAL = "_journal/start.json"
CRITIQUE_SOLVER = "self_critique"
"""Inspect's solver that has the draft so far revised; Inspect itself scores the answer alone."""
UNSCORED = (
    "Inspect scored its answers alone, so nothing is said of the drafts that self_critique revised; to have them "
    "scored, put a solver before it that awaits inspect_ai.scorer.score(state)"
)


def is_lm_eval(source: Source) -> bool:
    """Detect the samples that lm-evaluation-harness logs: `samples_*.jsonl`."""
    return any({"doc_id", "doc", "resps", "filtered_resps"} <= row.keys() for row in source.head[:1])


def read_lm_eval(source: Source) -> Log:
    """Read the samples; a document judged through several filters has a verdict for each metric and filter."""
    samples: dict[str, Entry] = {}
    for where, row in source.rows():
        through = as_text(row.get("filter")) or "none"
        names = row.get("metrics") or [
            name
            for name, value in row.items()
            if name not in LM_EVAL_FIELDS and (is_number(value) or isinstance(value, bool))
        ]
        # The harness itself writes a result's name so: `exact_match,strict-match`.
        scores = {f"{name},{through}": row.get(name) for name in names if isinstance(name, str)}
        key = as_text(row.get("doc_id"))
        if key in samples and not scores.keys() & samples[key].scores.keys():
            samples[key].scores.update(scores)
            continue
        # Two rows of one filter are two results for one document: kept apart, and refused later.
        samples[f"{key} {where}" if key in samples else key] = Entry(
            where,
            {"doc_id": row.get("doc_id"), "doc_hash": row.get("doc_hash")},
            scores,
            task=_first_argument(row.get("arguments")) or as_text(row.get("doc")),
            text=_only(row.get("filtered_resps")),
            gold=as_text(row.get("target")) or None,
        )
    return Log(source.path, "lm-evaluation-harness samples", list(samples.values()), ("doc_id",))


def _first_argument(arguments: Any) -> str:
    if isinstance(arguments, dict):
        first = next(iter(arguments.values()), None)
        return as_text(first.get("arg_0")) if isinstance(first, dict) else ""
    while isinstance(arguments, list) and arguments:
        arguments = arguments[0]
    return as_text(arguments or "")


def is_openai_evals(source: Source) -> bool:
    """Detect the events that `oaieval` records: JSONL with a `spec`, events and a `final_report`."""
    return any({"event_id", "sample_id", "type", "data"} <= row.keys() for row in source.head)


def read_openai_evals(source: Source) -> Log:
    """Read the samples; each field of each judging event may be the verdict: `match.correct`."""
    spec: dict[str, Any] = {}
    samples: dict[str, dict[str, Any]] = {}
    for where, row in source.rows():
        if isinstance(row.get("spec"), dict):
            spec = row["spec"]
        data = row.get("data")
        if row.get("sample_id") is None or not isinstance(data, dict):
            continue
        sample = samples.setdefault(as_text(row["sample_id"]), {"where": where, "scores": {}})
        kind = as_text(row.get("type"))
        if kind in QUIET_EVENTS:
            sample.setdefault("prompt", data.get("prompt"))
            sample["sampled"] = data.get("sampled")
        elif kind == "error":
            sample["error"] = as_text(data.get("message") or data.get("type") or "error")
        else:
            for name, value in flattened(data).items():
                field = f"{kind}.{name}"
                if sample["scores"].get(field, value) != value:
                    raise ValueError(f"{source.path}, {where}: sample {row['sample_id']!r} has two values of {field!r}")
                sample["scores"][field] = value
            sample["gold"] = data.get("expected", data.get("options"))
    model = "+".join(map(as_text, spec.get("completion_fns") or ()))
    entries = [
        Entry(
            sample["where"],
            {"sample_id": name},
            {key: value for key, value in sample["scores"].items() if key not in MATCH_TEXTS},
            task=_messages(sample.get("prompt")),
            text=_only(sample.get("sampled")),
            gold=as_text(sample.get("gold")) or None,
            model=model,
            error=sample.get("error"),
        )
        for name, sample in samples.items()
        if sample["scores"] or sample.get("error")
    ]
    dataset = as_text(spec.get("base_eval") or spec.get("eval_name"))
    return Log(source.path, "OpenAI evals record", entries, ("sample_id",), dataset=dataset, method=model)


def _messages(prompt: Any) -> str:
    """Return the text of a prompt: one text, or that of each of its messages."""
    if isinstance(prompt, list):
        return "\n\n".join(_content(message.get("content")) for message in prompt if isinstance(message, dict))
    return as_text(prompt)


def _content(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(as_text(part.get("text")) for part in value if isinstance(part, dict) and part.get("text"))
    return as_text(value)


def _only(value: Any) -> str:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return as_text(value)


def is_promptfoo(source: Source) -> bool:
    """Detect the results that promptfoo writes: the JSON of `promptfoo eval -o`, or its JSONL."""
    rows = _promptfoo_results(source) if source.kind == "json" else source.head
    return any(isinstance(row, dict) and {"success", "vars", "prompt", "provider"} <= row.keys() for row in rows[:1])


def read_promptfoo(source: Source) -> Log:
    """Read the results, those of each prompt and provider apart; `success` is the verdict."""
    document = source.document if source.kind == "json" else None
    listed = (
        list(source.rows())
        if document is None
        else [(f"result {n}", row) for n, row in enumerate(_promptfoo_results(source), 1) if isinstance(row, dict)]
    )
    parts = [(_label(row, "prompt"), _label(row, "provider")) for _, row in listed]
    named = [len({part[at] for part in parts}) > 1 for at in (0, 1)]
    entries = [
        _promptfoo_entry(where, row, " · ".join(name for name, needed in zip(names, named, strict=True) if needed))
        for (where, row), names in zip(listed, parts, strict=True)
    ]
    tests = {(entry.method, entry.ids["vars"]) for entry in entries}
    # The variables name a test wherever it stands in its file; the number only where two tests share them.
    ids = ("vars",) if len(tests) == len(entries) else ("testIdx",)
    config = document.get("config") if isinstance(document, dict) else None
    title = as_text(config.get("description")) if isinstance(config, dict) else ""
    return Log(source.path, "promptfoo results", entries, ids, ("success",), dataset=title)


def _promptfoo_entry(where: str, row: dict[str, Any], method: str) -> Entry:
    response, prompt, case = row.get("response") or {}, row.get("prompt"), row.get("testCase")
    description = as_text(case.get("description")) if isinstance(case, dict) else ""
    # promptfoo numbers the tests that have no description of their own.
    own = {"description": description} if description and not re.fullmatch(r"Test #\d+", description) else {}
    return Entry(
        where,
        {"vars": as_text(row.get("vars")), "testIdx": row.get("testIdx"), **own},
        {"success": row.get("success"), "score": row.get("score"), **(row.get("namedScores") or {})},
        method=method,
        task=as_text(prompt.get("raw")) if isinstance(prompt, dict) else "",
        text=as_text(response.get("output")),
        model=_label(row, "provider"),
        tokens=int((row.get("tokenUsage") or response.get("tokenUsage") or {}).get("total") or 0),
        cost_usd=float(row["cost"]) if is_number(row.get("cost")) and row["cost"] >= 0 else None,
        seconds=(row.get("latencyMs") or 0) / 1000,
        # A failed assertion stands there too; it is a verdict and no error.
        error=(as_text(row.get("error")) or None) if row.get("failureReason") == NO_ANSWER else None,
    )


def _promptfoo_results(source: Source) -> list[Any]:
    results = source.document
    for _ in range(2):
        results = results.get("results") if isinstance(results, dict) else results
    return results if isinstance(results, list) else []


def _label(row: dict[str, Any], part: str) -> str:
    """Return the name of a result's prompt or provider, which older files hold as a plain text."""
    value = row.get(part)
    if not isinstance(value, dict):
        return as_text(value)
    return as_text(value.get("label") or (row.get("promptIdx") if part == "prompt" else value.get("id")))


def is_deepeval(source: Source) -> bool:
    """Detect a test run of DeepEval: the JSON in its results folder."""
    if source.kind != "json" or not isinstance(source.document, dict):
        return False
    return any("metricsData" in case for _, case in _deepeval_cases(source.document)[:1])


def read_deepeval(source: Source) -> Log:
    """Read the test cases; `success`, that of all metrics, is the verdict, and each metric's can be named."""
    entries: list[Entry] = []
    for where, case in _deepeval_cases(source.document):
        metrics = [metric for metric in case.get("metricsData") or () if isinstance(metric, dict)]
        scores: dict[str, Any] = {"success": case.get("success")}
        for metric in metrics:
            name = as_text(metric.get("name"))
            scores |= {f"{name}.success": metric.get("success"), f"{name}.score": metric.get("score")}
        question = as_text(case.get("input") or case.get("scenario"))
        entries.append(
            Entry(
                where,
                {"name": as_text(case.get("name")), "input": question, "order": case.get("order")},
                scores,
                task=question,
                text=as_text(case.get("actualOutput")),
                gold=as_text(case.get("expectedOutput")) or None,
                cost_usd=float(case["tokenCost"]) if is_number(case.get("tokenCost")) else None,
                seconds=float(case["completionTime"]) if is_number(case.get("completionTime")) else 0.0,
                error=next((as_text(metric["error"]) for metric in metrics if metric.get("error")), None),
            )
        )
    numbered = any(re.fullmatch(r"(conversational_)?test_case_\d+", entry.ids["name"]) for entry in entries)
    # DeepEval numbers cases that were given no name, in the order in which they came.
    return Log(source.path, "DeepEval test run", entries, ("input",) if numbered else ("name",), ("success",))


def _deepeval_cases(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    run = document.get("testRunData") if isinstance(document.get("testRunData"), dict) else document
    return [
        (f"{kind} {number}", case)
        for kind in ("testCases", "conversationalTestCases")
        for number, case in enumerate((run or {}).get(kind) or (), 1)
        if isinstance(case, dict)
    ]


def is_inspect(source: Source) -> bool:
    """Detect an Inspect log."""
    if source.kind == "zip":
        return any(name in source.names for name in ("header.json", JOURNAL))
    return source.kind == "json" and isinstance(source.document, dict) and {"eval", "plan"} <= source.document.keys()


def read_inspect(source: Source) -> Log:
    """Read the samples of an Inspect log; each score between attempts is a round."""
    header, samples = _inspect_parts(source)
    info = header.get("eval") or {}
    data = info.get("dataset") or {}
    scorers = info.get("scorers") or ()
    entries: list[Entry] = []
    unscored: dict[int, list[Entry]] = {}  # drafts by the place of the answer that they were revised to
    went_on = several = False
    judged = True
    for where, sample in samples:
        if not isinstance(sample, dict):
            raise ValueError(f"{source.path}, {where}: a sample is an object, not {type(sample).__name__}")  # noqa: TRY004
        drafts = list(_inspect_drafts(where, sample, str(info.get("model", ""))))
        several |= len(drafts) > 1
        went_on |= _goes_on(sample, drafts)
        entries += drafts
        if len(drafts) == 1 and (before := _before_critiques(sample)):
            unscored[len(entries) - 1], by_rule = _scored_by_rule(sample, scorers, drafts[0], before)
            judged &= by_rule
    if unscored and judged:
        entries = [draft for at, answer in enumerate(entries) for draft in _revised(unscored.get(at, []), answer)]
    # The header lists solvers under `plan`; the journal's start keeps them there too.
    steps = [step.get("solver", "") for step in (header.get("plan") or {}).get("steps") or ()]
    return Log(
        source.path,
        "Inspect log",
        entries,
        ("id",),
        dataset=str(data.get("name") or info.get("task") or ""),
        # An agent is a chain of steps, of which the last one names it.
        method=str(info.get("solver") or (steps[-1] if steps else "")),
        asked=len(data.get("sample_ids") or ()),
        # A scorer knows the target. Where nothing went on after a right draft, the score is what stopped it.
        told_the_score=several and not went_on,
        notes=[UNSCORED] if unscored and not judged else [],
    )


def _scored_by_rule(
    sample: dict[str, Any], scorers: Any, answer: Entry, before: Iterable[tuple[str, int]]
) -> tuple[list[Entry], bool]:
    """Return the drafts before an answer, scored by the rule of the log's scorer, and whether that is its rule."""
    target = sample.get("target")
    drafts = [
        replace(answer, scores=scores, round=number, text=text, tokens=tokens, seconds=0.0, error=None)
        for number, (text, tokens) in enumerate(before)
        if (scores := scores_by_rule(scorers, text, target)) is not None
    ]
    # A rule that gives an answer another score than the log has is not the one that the log was scored by.
    by_rule = scores_by_rule(scorers, _inspect_output(sample), target)
    return drafts, by_rule is not None and (answer.error is not None or by_rule == answer.scores)


def _inspect_parts(source: Source) -> tuple[dict[str, Any], Iterable[tuple[str, Any]]]:
    """Return the header of a log, and the place and content of each sample."""
    if source.kind != "zip":
        listed = source.document.get("samples") or ()
        return source.document, ((f"sample {n}", sample) for n, sample in enumerate(listed, 1))
    header = source.member("header.json" if "header.json" in source.names else JOURNAL)
    return header, ((name, source.member(name)) for name in source.names if name.startswith("samples/"))


def _inspect_output(part: dict[str, Any]) -> str:
    """Return the text of the output of a sample or of a call."""
    output = part.get("output") or {}
    choices = output.get("choices") or ()
    return _content((choices[0].get("message") or {}).get("content") if choices else output.get("completion"))


def _inspect_answer(sample: dict[str, Any], scores: dict[str, Any]) -> str:
    """Return the answer that a scorer read, else the text of the sample's output."""
    answers = (as_text(score["answer"]) for score in scores.values() if score.get("answer"))
    return next(answers, _inspect_output(sample))


def _inspect_drafts(where: str, sample: dict[str, Any], model: str) -> Iterator[Entry]:
    """Yield the drafts of a sample: those scored on the way, then the answer."""
    scores = {name: score for name, score in (sample.get("scores") or {}).items() if isinstance(score, dict)}
    final = {
        key: value for name, score in scores.items() for key, value in _inspect_values(name, score.get("value")).items()
    }
    error = sample.get("error")
    common: dict[str, Any] = {
        "where": where,
        "ids": {"id": sample.get("id")},
        "trial": sample.get("epoch"),
        "task": _messages(sample.get("input")),
        "gold": as_text(sample.get("target")) or None,
        "model": model,
        "error": as_text(error.get("message")) if isinstance(error, dict) else as_text(error) or None,
    }
    rounds, tokens = _rounds(sample, scores)
    for number, (values, draft, spent) in enumerate(rounds):
        yield Entry(**common, scores=values, round=number, text=draft, tokens=spent)
    spent_before = sum(spent for _, _, spent in rounds)
    yield Entry(
        **common,
        scores=final,
        round=len(rounds) if rounds else None,
        text=_inspect_answer(sample, scores),
        tokens=max(tokens - spent_before, 0),
        seconds=float(sample.get("total_time") or 0.0),
    )


def _of_redraft(sample: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what `redraft.evals.inspect.graph_solver` left in the metadata of a sample."""
    told = (sample.get("metadata") or {}).get("redraft")
    return told if isinstance(told, dict) and {"oracle", "tokens", "usage"} <= told.keys() else None


def _rounds(sample: dict[str, Any], scores: dict[str, Any]) -> tuple[list[tuple[dict[str, Any], str, int]], int]:
    """Return the values, answer and tokens of each draft scored before the answer, and the tokens of all."""
    rounds, written_since = _scored_on_the_way(sample, scores)
    if told := _of_redraft(sample):
        # What Inspect counted holds the calls of its scorers, and none of a model that is not its own.
        own = [(*said[:2], spent) for said, spent in zip(rounds, told["tokens"], strict=False)]
        return own, told["usage"]["total_tokens"]
    if rounds and not written_since:
        rounds.pop()  # the answer, which is scored once more at the end
    usage = sample.get("model_usage") or {}
    return rounds, sum(int(used.get("total_tokens") or 0) for used in usage.values() if isinstance(used, dict))


def _goes_on(sample: dict[str, Any], drafts: Sequence[Entry]) -> bool:
    """Return True if it was not the score that ended a sample."""
    told = _of_redraft(sample)
    return not told["oracle"] if told else any(True in entry.scores.values() for entry in drafts[:-1])


def _scored_on_the_way(
    sample: dict[str, Any], scores: dict[str, Any]
) -> tuple[list[tuple[dict[str, Any], str, int]], bool]:
    """Return the values, answer and tokens of each draft scored before the end, and True if a draft came after them."""
    rounds: list[tuple[dict[str, Any], str, int]] = []
    scored: set[str] = set()  # names of those who scored the last of them
    spent, written = 0, False
    for event in sample.get("events") or ():
        if not isinstance(event, dict):
            continue
        if event.get("event") == "model":
            used = (event.get("output") or {}).get("usage") or {}
            spent, written = spent + int(used.get("total_tokens") or 0), True
        elif event.get("event") == "score" and event.get("intermediate"):
            score = event.get("score") or {}
            name = event.get("scorer") or (next(iter(scores)) if len(scores) == 1 else None)
            if name is None:  # an older log: with several scorers it would be a guess whose value it is
                return [], False
            values = _inspect_values(name, score.get("value"))
            if not rounds or name in scored:
                rounds.append(({}, as_text(score.get("answer")), spent))
                scored, spent = set(), 0
            rounds[-1][0].update(values)
            scored.add(name)
            written = False
    return rounds, written


def _before_critiques(sample: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the text and tokens of each draft that Inspect's `self_critique` was given, the first one first."""
    drafts: list[tuple[str, int]] = []
    text, spent = "", 0
    attachments = sample.get("attachments") or {}
    for event in sample.get("events") or ():
        if not isinstance(event, dict):
            continue
        solver = as_text(event.get("name")).rpartition("/")[2] if event.get("type") == "solver" else ""
        # Logs of before there were spans hold steps, whose end has the solver's name too.
        begins = event.get("event") == "span_begin" or event.get("action") == "begin"
        if event.get("event") == "model":
            used = (event.get("output") or {}).get("usage") or {}
            text, spent = _inspect_output(event), spent + int(used.get("total_tokens") or 0)
        elif begins and solver == CRITIQUE_SOLVER:
            # A text of more than 100 characters stands apart from its event.
            drafts.append((as_text(attachments.get(text.removeprefix("attachment://"), text)), spent))
            spent = 0
    return drafts


def _revised(drafts: list[Entry], answer: Entry) -> list[Entry]:
    """Return the drafts of a sample and its answer as rounds."""
    if not drafts:
        return [answer]
    tokens = max(answer.tokens - sum(draft.tokens for draft in drafts), 0)
    return [*drafts, replace(answer, round=len(drafts), tokens=tokens)]


def _inspect_values(name: str, value: Any) -> dict[str, Any]:
    """Return the verdicts in a score's value, which may be an object of several."""
    if isinstance(value, dict):
        return {f"{name}.{key}": _letter(part) for key, part in flattened(value).items()}
    return {name: _letter(value)}


def _letter(value: Any) -> Any:
    return INSPECT_LETTERS.get(value, value) if isinstance(value, str) else value
