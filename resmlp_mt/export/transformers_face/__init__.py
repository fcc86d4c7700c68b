"""The model and its text for Hugging Face's transformers: files that an exported folder gets a copy of.

In the copy, ``from resmlp_mt.ROOM.FILE import`` becomes ``from .FILE import``, which is what transformers follows, in
one folder without subfolders.
"""
