"""Translation outside fairseq: a model's folder, the search, and text to text. Nothing here needs fairseq."""
