from . import branching as branching
from . import certifying as certifying
from . import densifying as densifying
from . import windows as windows
from ._branches import Branch as Branch
from ._branches import Parent as Parent
from ._changes import with_controls as with_controls
from ._delays import Transition as Transition
