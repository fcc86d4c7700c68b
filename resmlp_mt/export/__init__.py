"""A trained model as a folder for transformers and ``resmlp_mt.translate``, with graphs for ONNX Runtime."""
