"""A device that is not there is refused, by its effect."""

import pytest
import torch

from stagewise.models._devices import check_device


def test_a_device_that_holds_numbers_is_taken() -> None:
    check_device("cpu")
    check_device(torch.device("cpu", 0))


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(device: str) -> None:
    with pytest.raises(ValueError, match=f'torch sees no device "{device}" here .*: take another one'):
        check_device(device)
