"""The model outside of Python: an encoder and a decoder step for ONNX Runtime."""
