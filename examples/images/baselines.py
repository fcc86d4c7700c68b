"""What the small models are measured beside, of about their size: a convolutional net and a vision Transformer."""

import torch
from torch import Tensor, nn


def conv_net(channels: int = 1, classes: int = 10) -> nn.Sequential:
    """Three 3 x 3 convolutions with batch normalization, the image halved after the first, mean, linear layer.

    It is the teacher too.
    """
    layers: list[nn.Module] = []
    for inputs, outputs, stride in (channels, 16, 1), (16, 48, 2), (48, 48, 1):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, classes))


class VisionTransformer(nn.Module):
    """For the digits: patches, learned positions, two pre-norm layers of PyTorch's, mean (Dosovitskiy et al. 2021)."""

    def __init__(self, dim: int = 32):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, 2, 2)
        self.positions = nn.Parameter(0.02 * torch.randn(16, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, 0.0, "gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, 10)

    def forward(self, images: Tensor) -> Tensor:
        """``B x 1 x 8 x 8 -> B x 10``"""
        x = self.patches(images).flatten(2).permute(2, 0, 1) + self.positions
        return self.head(self.layers(x).mean(0))
