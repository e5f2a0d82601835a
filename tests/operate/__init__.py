"""podium as an operator meets it: the steps of the documentation on a real control plane, one after the other."""
