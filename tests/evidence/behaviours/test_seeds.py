"""Seeds of the small task: what is told of each is put together over all."""

from evidence.behaviours.seeds import Told, summary

NEVER = float("nan")


def test_the_spread_is_of_the_first_head_of_a_kind_and_of_seeds_in_which_the_behaviour_came() -> None:
    mover, inhibition = (
        [{"kind": kind, "formed": step, "t50": step} for step in steps]
        for kind, steps in (("name mover", (80.0, 60.0)), ("S-inhibition", (NEVER,)))
    )
    seeds: list[Told] = [
        {"t50": [100.0, 90.0, 110.0], "dip": None, "heads": mover},
        {"t50": [140.0, 130.0, 150.0], "dip": [10, 30, 20, -0.5], "heads": [*mover[:1], *inhibition]},
        {"t50": [NEVER, NEVER, NEVER], "dip": None, "heads": []},
    ]
    assert list(summary(seeds)) == [
        "came in 2 of 3, half-way at 120 (100 to 140); a dip before in 1",
        "S-inhibition: 1 heads in 1 of 3, the first formed at no known step",
        "name mover: 3 heads in 2 of 3, the first formed at 70 (60 to 80)",
    ]
