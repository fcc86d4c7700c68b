"""How the loss falls with parameters and data: a grid of trainings, the laws fitted to them, the tables of a study."""
