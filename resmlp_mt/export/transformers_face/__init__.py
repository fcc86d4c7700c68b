"""The model and its tokenizer for Hugging Face's transformers. An exported folder gets a copy of these files.

In the copy, ``from resmlp_mt.PACKAGE.FILE import`` becomes ``from .FILE import``. transformers follows such imports, in
one folder without subfolders.
"""
