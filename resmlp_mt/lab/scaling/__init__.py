"""How the loss falls with parameters, data and compute: a grid of trainings, the laws fitted to them, a page."""
