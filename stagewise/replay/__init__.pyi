from ._branches import Branch as Branch
from ._branches import answer_of as answer_of
from ._branches import compare as compare
from ._branches import cost as cost
from ._branches import own_table as own_table
from ._branches import transitions_after as transitions_after
from ._changes import with_controls as with_controls
from ._delays import Transition as Transition
