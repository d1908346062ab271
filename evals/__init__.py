"""Evaluations of methods on datasets, and what refining changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .analysis.comparison import Comparison, compare
    from .analysis.diagnosis import Diagnosis, diagnose
    from .analysis.ledger import Ledger, build_ledger
    from .choosing import achoose, choose
    from .datasets.dataset import Dataset, Problem, load_dataset
    from .datasets.scorers import passes_hidden_tests
    from .evaluation import aevaluate, evaluate
    from .gating import agate, gate, write_baseline
    from .report.page import write_report
    from .report.plots import draw_plots
    from .run.methods import METHODS, Method, build_method
    from .run.result_record import ResultRecord, result_record
    from .run.run_folder import ResultFile, Run, RunInfo, find_runs, read_results, read_run, write_run_info
    from .run.runner import run_method
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.evals.analysis.comparison": ["Comparison", "compare"],
            "redraft.evals.analysis.diagnosis": ["Diagnosis", "diagnose"],
            "redraft.evals.analysis.ledger": ["Ledger", "build_ledger"],
            "redraft.evals.datasets.dataset": ["Dataset", "Problem", "load_dataset"],
            "redraft.evals.datasets.scorers": ["passes_hidden_tests"],
            "redraft.evals.report.page": ["write_report"],
            "redraft.evals.report.plots": ["draw_plots"],
            "redraft.evals.choosing": ["achoose", "choose"],
            "redraft.evals.evaluation": ["aevaluate", "evaluate"],
            "redraft.evals.gating": ["agate", "gate", "write_baseline"],
            "redraft.evals.run.methods": ["METHODS", "Method", "build_method"],
            "redraft.evals.run.result_record": ["ResultRecord", "result_record"],
            "redraft.evals.run.run_folder": [
                "ResultFile",
                "Run",
                "RunInfo",
                "find_runs",
                "read_results",
                "read_run",
                "write_run_info",
            ],
            "redraft.evals.run.runner": ["run_method"],
        },
    )

__all__ = [
    "METHODS",
    "Comparison",
    "Dataset",
    "Diagnosis",
    "Ledger",
    "Method",
    "Problem",
    "ResultFile",
    "ResultRecord",
    "Run",
    "RunInfo",
    "achoose",
    "aevaluate",
    "agate",
    "build_ledger",
    "build_method",
    "choose",
    "compare",
    "diagnose",
    "draw_plots",
    "evaluate",
    "find_runs",
    "gate",
    "load_dataset",
    "passes_hidden_tests",
    "read_results",
    "read_run",
    "result_record",
    "run_method",
    "write_baseline",
    "write_report",
    "write_run_info",
]
