"""Curves as arrays in, estimates with intervals out: transitions, turning points, crossings, noise, power laws."""
