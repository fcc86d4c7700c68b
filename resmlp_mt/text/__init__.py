"""From text to subwords and back: used to prepare a corpus, to translate, and in exported folders.

These files import only sacremoses, subword-nmt or sentencepiece, and each other, by relative imports.
"""
