"""The catalogue of tasks: one task a file."""

from stagewise.tasks.associative_recall import AssociativeRecall as AssociativeRecall
from stagewise.tasks.markov_chain import MarkovChain as MarkovChain
from stagewise.tasks.markov_regression import MarkovRegression as MarkovRegression
from stagewise.tasks.repeated_tokens import RepeatedTokens as RepeatedTokens
from stagewise.tasks.sequence_classes import SequenceClasses as SequenceClasses
from stagewise.tasks.sequence_classes import syn_medium as syn_medium
from stagewise.tasks.sequence_classes import syn_small as syn_small
from stagewise.tasks.sparse_regression import SparseRegression as SparseRegression
from stagewise.tasks.text import Text as Text
from stagewise.tasks.tokens import Tokens as Tokens
from stagewise.tasks.wiki_text import WikiText as WikiText
from stagewise.tasks.windows import Windows as Windows
