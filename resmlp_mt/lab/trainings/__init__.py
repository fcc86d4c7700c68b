"""A queue of trainings, each in a folder of its own, on which tables of variants and scaling stand."""
