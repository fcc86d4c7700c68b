"""The model without PyTorch: an encoder and a decoder step for ONNX Runtime."""
