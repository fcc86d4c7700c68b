"""A queue of trainings, each in its own folder; tables of variants and studies of scaling are built on it."""
