"""Settings of a process of its own, the command line's or a worker's: never made at import."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt: from which size on freed memory is given back, and a block is mapped by itself."""

KEPT = 2**30


def one_thread() -> None:
    """Set torch to one thread, and keep freed memory for the next tensor.

    Small models train fastest on one thread a process; two on busy cores are tens of times slower. Memory that is given
    back to the system after each tensor is filled with zeros by it before the next: a tenth to a quarter of the time
    of edited passes.
    """
    import torch

    torch.set_num_threads(1)
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):  # glibc
            library.mallopt(M_MMAP_THRESHOLD, KEPT)
            library.mallopt(M_TRIM_THRESHOLD, KEPT)
