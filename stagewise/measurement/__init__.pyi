from . import probe_batch as probe_batch
from ._earlier import parts_folder as parts_folder
from ._measuring import Measurement as Measurement
from ._provenance import analysis_record as analysis_record
from ._provenance import made_anew as made_anew
from ._provenance import provenance as provenance
from ._provenance import recorded as recorded
from ._provenance import recorded_probes as recorded_probes
