"""Six models of a curve's noise, side by side: each serves one question, and none stands for another.

- `differences`: white or AR(1) noise between checkpoints, told from second differences, whatever the curve does; what
  running medians leave of it in many curves at once: patterns of heads; and noise about a curve that only rises, near
  the place where it crosses a level: emergence.
- `residual`: noise about a smooth fit, correlated, of a level that changes over the run, with outliers: transitions.
- `fading`: noise at steps in any distances, which fades over steps and may swing: minima of densified runs.
- `plateau`: noise about a growth on a short plateau, which fades exponentially over steps: forecasts.
"""
