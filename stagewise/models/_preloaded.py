"""Imported by the server that worker processes are copies of, for what each of them would take seconds to import."""

from stagewise.models.process import import_libraries

import_libraries()
