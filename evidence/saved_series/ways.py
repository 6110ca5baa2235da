"""All ways of saving, in the order of the page."""

from evidence.saved_series import adapters, folders, own_models, plain, trainers

WAYS = (*trainers.ways(), *adapters.ways(), *folders.ways(), *plain.ways(), *own_models.ways())
