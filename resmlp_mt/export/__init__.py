"""Export a trained model: to a folder for transformers and ``resmlp_mt.translate``, and to graphs for ONNX Runtime."""
