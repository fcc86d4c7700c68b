"""From text to subwords and back: the same files prepare a corpus, translate, and go into an exported folder.

Nothing here imports anything but sacremoses, subword-nmt or sentencepiece, and this room, by relative imports.
"""
