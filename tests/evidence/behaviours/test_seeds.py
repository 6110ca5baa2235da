"""Seeds of the small task: what is told of each is put together over all."""

from evidence.behaviours.seeds import Told, summary

NEVER = float("nan")


def test_the_spread_is_of_the_first_head_of_a_kind_and_of_seeds_in_which_the_behaviour_came() -> None:
    mover, inhibition = (
        [{"kind": kind, "formed": step, "t50": step} for step in steps]
        for kind, steps in (("name mover", (80.0, 60.0)), ("S-inhibition", (NEVER, 40.0)))
    )
    inhibition[0]["t50"] = 50.0
    seeds: list[Told] = [
        {"since": 90, "t50": [100.0, 90.0, 110.0], "dip": None, "heads": mover},
        {"since": 110, "t50": [140.0, 130.0, 150.0], "dip": [10, 30, 20, -0.5], "heads": [*mover[:1], *inhibition]},
        {"since": None, "t50": [NEVER, NEVER, NEVER], "dip": None, "heads": []},
    ]
    assert list(summary(seeds)) == [
        "came in 2 of 3, surely from 100 (90 to 110) on; a dip before in 1",
        "with an onset in 2, half-way at 120 (100 to 140)",
        "S-inhibition: 2 heads in 1 of 3, the first at 40 (40 to 40)",
        "name mover: 3 heads in 2 of 3, the first at 70 (60 to 80)",
        "S-inhibition before name mover in 1 of 1",
    ]
