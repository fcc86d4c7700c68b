"""From plain parallel text to what fairseq trains on, as small steps over streams (see ``pipeline.prepare``)."""
