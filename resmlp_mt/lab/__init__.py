"""A queue of trainings, and studies built on it: tables of variants, scaling, speed, pictures, cost."""
