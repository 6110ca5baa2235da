from ._measured import Measured as Measured
from ._measured import read_measured as read_measured
from ._measured import write_batch as write_batch
from ._section import section as section
