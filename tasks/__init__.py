"""The catalogue of tasks: one task a file; installed packages add theirs by entry points `stagewise.tasks`."""

from typing import TYPE_CHECKING

from stagewise.entry_points import loaded as _loaded
from stagewise.tasks.indirect_objects import IndirectObjects as IndirectObjects
from stagewise.tasks.markov_chain import MarkovChain as MarkovChain
from stagewise.tasks.repeated_tokens import RepeatedTokens as RepeatedTokens
from stagewise.tasks.text import Text as Text
from stagewise.tasks.tokens import Tokens as Tokens
from stagewise.tasks.windows import Windows as Windows

if not TYPE_CHECKING:  # a checker knows the names above alone

    def __getattr__(name: str) -> type:
        """Return a task that an installed package adds."""
        return _loaded("tasks", name)
