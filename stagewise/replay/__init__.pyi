from ._branches import Branch as Branch
from ._branches import compare as compare
from ._branches import cost as cost
from ._changes import with_controls as with_controls
