"""The published numbers of Scan and Snap have the shape of the figures that they stand beside."""

from stagewise.papers.scan_and_snap._synthetic import ETA_Z, RATIOS
from stagewise.papers.scan_and_snap.published import BLOCK_LOSS, DECODER, ENTROPIES, PROBE_MAPS
from stagewise.papers.theory.scan_and_snap import ScanAndSnap


def test_every_rate_and_ratio_has_its_entropy() -> None:
    for cells in ENTROPIES.values():
        assert tuple(cells) == ETA_Z
        assert {len(row) for row in cells.values()} == {len(RATIOS)}


def test_every_published_map_has_its_loss() -> None:
    assert PROBE_MAPS.keys() <= BLOCK_LOSS.keys()


def test_the_decoder_is_that_of_the_formula_within_two_percent() -> None:
    theory = ScanAndSnap(M=1000, K=10, eta_y=0.5)
    for time, error in DECODER.items():
        assert abs(theory.class_error(time).item() / error - 1) < 0.02
