"""Records what a model replies to README, docs, notebooks and examples: `make record MODEL=http://…/v1#NAME`.

It runs the tests that run the examples, and the notebooks, with a model that is asked for what it has not answered yet,
and nothing else; so it goes on where it was stopped, and after a change of one example asks for that one. At the end it
leaves out what no example asks for any more. The replies are in `models/examples.jsonl`; `chat_model("replay")` gives
them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "models" / "examples.jsonl"
NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m"
PYTEST = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--timeout=0", "--cases=all"]
KEYS = ("prompt", "request", "occurrence", "model", "settings", "provider", "structured", "reply")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="whom to ask, as in chat_model; a key in REDRAFT_API_KEY")
    parser.add_argument("--name", default=NAME, help=f"the model's name in the record; default: {NAME}")
    parser.add_argument("--fill", action="store_true", help="take what another model has answered, too")
    parser.add_argument("--temperature", default="0")
    parser.add_argument(
        "--only", metavar="WORD", default="", help="only what is so called, such as start, or a notebook: 01"
    )
    given = parser.parse_args()
    EXAMPLES.touch()
    with tempfile.NamedTemporaryFile("r", suffix=".used") as used:
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "benchmarks" / "recorder"),
            "REDRAFT_RECORD": given.model,
            "REDRAFT_RECORD_KEY": os.environ.get("REDRAFT_API_KEY", "none"),
            "REDRAFT_RECORD_AS": given.name,
            "REDRAFT_RECORD_FILL": "1" if given.fill else "",
            "REDRAFT_RECORD_TEMPERATURE": given.temperature,
            "REDRAFT_RECORD_USED": used.name,
        }
        tests = [*PYTEST, "tests/test_readme.py", "tests/test_examples.py", "-k", given.only or "examples"]
        notebooks = ["notebooks/execute.py", *given.only.split(",")[: bool(given.only)]]
        runs = [tests, notebooks] if not given.only else [notebooks if given.only.isdigit() else tests]
        failed = [
            run for run in runs if subprocess.run([sys.executable, *run], cwd=ROOT, env=env, check=False).returncode
        ]
        asked = set(used.read().split())
    lines = {}
    calls = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    for call in sorted(calls, key=lambda call: (call["model"] == given.name) != given.fill):
        if failed or given.only or (call["request"] in asked and (given.fill or call["model"] == given.name)):
            lines[call["request"], call["occurrence"]] = json.dumps(
                {key: call[key] for key in KEYS}, ensure_ascii=False
            )
    EXAMPLES.write_text("".join(f"{lines[key]}\n" for key in sorted(lines)), encoding="utf-8")
    if not failed and notebooks in runs:  # once more from the record, which has the model's own name
        subprocess.run([sys.executable, *notebooks], cwd=ROOT, check=True)
    print(f"{len(lines)} replies, {EXAMPLES.stat().st_size:,} bytes, in {EXAMPLES.relative_to(ROOT)}")
    sys.exit("Not all examples ran: what failed is above, and what was answered is kept." if failed else 0)


if __name__ == "__main__":
    main()
