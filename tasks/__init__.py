"""The catalogue of tasks: one task a file."""

from stagewise.tasks.markov_chain import MarkovChain as MarkovChain
from stagewise.tasks.sequence_classes import SequenceClasses as SequenceClasses
from stagewise.tasks.sequence_classes import syn_medium as syn_medium
from stagewise.tasks.sequence_classes import syn_small as syn_small
from stagewise.tasks.wiki_text import WikiText as WikiText
from stagewise.tasks.windows import Windows as Windows
