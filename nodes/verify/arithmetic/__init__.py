"""The sums of a worked solution, found and recomputed exactly."""

from .sums import Sum, find_sums
from .verifiers import arithmetic_holds, ends_with_answer

__all__ = ["Sum", "arithmetic_holds", "ends_with_answer", "find_sums"]
