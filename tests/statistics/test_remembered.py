"""Results are remembered by their bytes: those used last, and always the newest."""

import numpy as np

from stagewise.statistics._remembered import remembered


def test_what_was_used_last_stays_as_far_as_there_is_room() -> None:
    calls: list[int] = []

    @remembered(3 * 80)
    def tens(number: int) -> np.ndarray:
        """Ten numbers, 80 bytes."""
        calls.append(number)
        return np.full(10, float(number))

    for number in (1, 2, 3, 1, 4, 1, 2):
        assert tens(number).tolist() == [number] * 10
    assert calls == [1, 2, 3, 4, 2]  # 2 made room for 4
    assert tens.bytes == 240
    assert tens.__doc__ == "Ten numbers, 80 bytes."


def test_the_newest_stays_however_large_until_it_is_forgotten() -> None:
    calls: list[int] = []

    @remembered(8)
    def pair(number: int, *, fine: bool) -> tuple[np.ndarray, str]:
        calls.append(number)
        return np.zeros(10), "text"

    for _ in range(2):
        pair(1, fine=True)
    assert (calls, pair.bytes) == ([1], 80)
    pair(1, fine=False)
    pair.forget()
    pair(1, fine=False)
    assert (calls, pair.bytes) == ([1, 1, 1], 80)
