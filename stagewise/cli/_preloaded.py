"""Imported by the server of a command's worker processes, for what each of them would take a second to import."""

import importlib

from stagewise.own_code import ignore_local_look

ignore_local_look()
importlib.import_module("stagewise.analysis")
