"""A critique that says one thing again and again."""

from __future__ import annotations

from redraft import model_critic
from redraft.models import ScriptedModel


def test_a_critique_says_nothing_twice() -> None:
    """A sentence that a critique repeats is left out, all else stays; a reply to a prompt of one's own stays whole."""
    said = "Say why. It costs 29.5 euros.\n" + "It has no name. " * 30
    critic = model_critic(ScriptedModel([said]))
    assert critic("Describe a lantern.", "A lantern.", ()).text == "Say why. It costs 29.5 euros.\nIt has no name."
    own = model_critic(ScriptedModel(["Why? " * 9]), prompt="{draft}")
    assert own("Describe a lantern.", "A lantern.", ()).text == "Why? " * 9
