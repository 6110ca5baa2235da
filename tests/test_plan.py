"""Plans: which optimiser states are kept, and heads that are held."""

import itertools

import pytest

from stagewise.plan import SMALL, TrainPlan


def test_states_are_kept_of_a_small_model_and_of_any_on_request() -> None:
    plan = TrainPlan(steps=80, save=range(0, 80, 4))
    kept = plan.state_steps(SMALL)
    assert set(kept) <= set(plan.saved_steps) - {0, 80}
    assert max(after - before for before, after in itertools.pairwise((0, *kept, 80))) <= 80 / 8 + 4
    assert plan.state_steps(SMALL + 1) == ()
    assert TrainPlan(steps=80, save=(40,), states=(40,)).state_steps(10**9) == (40,)


def test_a_state_of_a_step_that_is_not_saved_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`states` are steps that are saved too, got \[3\]: add them to `save`"):
        TrainPlan(steps=8, save=(4,), states=(3, 4))
