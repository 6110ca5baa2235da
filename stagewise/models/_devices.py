"""Where a model runs."""

import torch


def check_device(device: str | torch.device) -> None:
    """Refuse a device that torch does not see here."""
    try:
        torch.empty(0, device=device).cpu()
    except (RuntimeError, AssertionError) as reason:
        line = str(reason).partition("\n")[0]
        raise ValueError(f'torch sees no device "{device}" here ({line}): take another one, as "cpu"') from reason
