"""The model and its text for Hugging Face's transformers: files that an exported folder gets a copy of.

In the copy, ``from resmlp_mt.ROOM.FILE import`` becomes ``from .FILE import``: transformers' loading of code takes along
what a file imports so, from one folder without subfolders.
"""
