"""What the default suite leaves to `make slow`: repetitions of values, never a value."""

import itertools

import pytest

from tests.fixtures.each_value import cover, sampled, values


@pytest.mark.parametrize("sizes", [(1, 1), (5, 1), (3, 2), (12, 4), (4, 3, 2)])
def test_every_value_of_every_parameter_is_asked_and_few_cases_twice(sizes: tuple[int, ...]) -> None:
    names = [f"parameter {place}" for place in range(len(sizes))]
    cases = [dict(zip(names, values, strict=True)) for values in itertools.product(*map(range, sizes))]
    chosen = [cases[place] for place in cover(cases)]
    assert all({case[name] for case in chosen} == set(range(size)) for name, size in zip(names, sizes, strict=True))
    assert len(chosen) == max(sizes)


@pytest.mark.parametrize(("number", "one_of"), [(1, 5), (3, 5), (12, 4), (13, 4)])
def test_one_case_in_so_many_is_kept_and_never_none(number: int, one_of: int) -> None:
    for name in ("a law", "another law"):
        kept = sampled(name, number, one_of)
        assert kept <= set(range(number))
        assert max(1, number // one_of) <= len(kept) <= -(-number // one_of)


def test_parameters_that_go_together_lose_no_case() -> None:
    assert cover([{"value,expected": (place, place % 2)} for place in range(7)]) == set(range(7))


@pytest.mark.each_value
@pytest.mark.parametrize(("kind", "length"), [("a", 1), ("b", 1), ("c", 1)])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_test_so_marked_keeps_three_of_six_cases(
    seed: int, kind: str, length: int, request: pytest.FixtureRequest
) -> None:
    assert isinstance(request.node, pytest.Function)
    assert values(request.node).keys() == {"seed", "kind,length"}
    name = request.node.nodeid.partition("[")[0]
    cases = [item for item in request.session.items if item.nodeid.startswith(f"{name}[")]
    assert len([item for item in cases if not item.get_closest_marker("slow")]) <= 3
