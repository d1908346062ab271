"""Commands of evaluations, as their entry point brings them; none is imported here. Internal."""

from __future__ import annotations

from ..faces.cli.command_list import LazyCommand

__all__ = ["COMMANDS"]

COMMANDS = (
    LazyCommand(
        "eval",
        "redraft.evals.commands.commands_eval:evaluate",
        "Run methods on a dataset, a result for every problem, and say what refining fixed and broke.",
        (
            "redraft eval bundled --limit 5 --methods zero-shot,self-refine-2 --out first",
            "redraft eval gsm8k.jsonl --model openai:gpt-5-mini --methods zero-shot,program-3 --rpm 300 --out gsm8k",
            "redraft eval gsm8k.jsonl --methods zero-shot,program-3 --out gsm8k --resume",
            "redraft report gsm8k",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "choose",
        "redraft.evals.commands.commands_choose:choose",
        "Say which method to use: one call, a longer one, samples, a vote, or refining, and how often.",
        (
            "redraft choose rows.jsonl --verify length:1-40 --budget-tokens 200000 --out recipe.json",
            "redraft choose rows.jsonl --graph my_agent:graph --score my_checks:is_right",
            'redraft run "An ad for a lantern" --recipe recipe.json',
        ),
        after="pipeline",
    ),
    LazyCommand(
        "gate",
        "redraft.evals.commands.commands_gate:gate",
        "Say whether a graph got worse than its baseline, on as few problems as it takes.",
        (
            "redraft gate rows.jsonl --graph my_agent:graph --score my_checks:is_right --write baseline.json",
            "redraft gate rows.jsonl --graph my_agent:graph --score my_checks:is_right --against baseline.json",
            "redraft gate rows.jsonl --graph refine --verify length:1-40 --against baseline.json --junit gate.xml",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "calibrate",
        "redraft.evals.commands.commands_calibrate:calibrate",
        "Find how sure a judge must be so that at most a share --alpha of what it accepts is wrong.",
        (
            "redraft calibrate labelled.jsonl --critic self --votes 5 --alpha 0.1 --delta 0.1 --out judge.json",
            "redraft calibrate gsm8k.jsonl --critic program --critic logprob:self --limit 200 --out judge.json",
            "redraft calibrate labelled.jsonl --critic field:agreement --alpha 0.2 --out judge.json",
            'redraft run "Ann has 3 bags of 4 pears. How many pears is that?" --graph math --judge judge.json',
            "redraft eval test.jsonl --methods zero-shot,self-refine-2 --judge judge.json --out judged",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "report",
        "redraft.evals.commands.commands_report:report",
        "Say what refining fixed and broke, at what cost, what else costs the same, and whom to trust.",
        (
            "redraft report gsm8k",
            "redraft report gsm8k humaneval --out both",
            "redraft report gsm8k --json",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "rescore",
        "redraft.evals.commands.commands_rescore:rescore",
        "Judge recorded results again, without a model: every answer, draft, sample and vote; exit with 1 where the "
        "record disagrees.",
        (
            "redraft rescore gsm8k",
            "redraft rescore results --data datasets    beside the datasets themselves",
            "redraft rescore gsm8k/majority-5 --write",
            "redraft rescore gsm8k --json | jq '.runs[].differences'",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "compare",
        "redraft.evals.commands.commands_report:compare",
        "Say what changed between anyone's two files of results, problem by problem, and whether that could be chance.",
        (
            "redraft compare before.jsonl after.jsonl",
            "redraft compare gsm8k/zero-shot/results.jsonl gsm8k/program-3/results.jsonl --json",
            "redraft compare a.jsonl b.jsonl --id task --correct passed",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "diagnose",
        "redraft.evals.commands.commands_report:diagnose",
        "Say whether refining is worth it here, and how many rounds, from a small labelled sample or from results.",
        (
            "redraft diagnose gsm8k.jsonl --model openai:gpt-5-mini --limit 30 --out sample",
            "redraft diagnose bundled --limit 10 --methods zero-shot,self-refine-2 --out sample",
            "redraft diagnose results/gsm8k --wanted 3    reads results that are there, and runs nothing",
        ),
        after="pipeline",
    ),
    LazyCommand(
        "tune",
        "redraft.evals.commands.commands_tune:tune",
        "Say which rungs of the ladder mend drafts, at how many tokens, and in which order to try them.",
        (
            "redraft tune results",
            "redraft tune --db runs.sqlite --out recipe.json",
            'redraft run "A tea ad with the word leaf" --verify length:12-20 --recipe recipe.json',
            "redraft tune results --json | jq .order",
        ),
        after="pipeline",
    ),
)
