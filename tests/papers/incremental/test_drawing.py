"""Panels: as many as asked for, with names on their axes."""

from stagewise.papers.incremental._drawing import finish, panels


def test_panels_have_their_names() -> None:
    figure, axes = panels(2)
    axes[1].plot([0, 1], label="a line")
    finish(axes[1], "title", "x", "y")
    assert len(figure.axes) == len(axes) == 2
    assert (axes[1].get_xlabel(), axes[1].get_ylabel(), axes[1].get_title(loc="left")) == ("x", "y", "title")
