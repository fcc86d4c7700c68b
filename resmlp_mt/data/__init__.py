"""Prepare plain parallel text for training with fairseq, in small steps over streams (see ``pipeline.prepare``)."""
