"""Trainings in a queue, and what is made of them: tables of variants, scaling, speed, pictures, cost."""
