"""What the small models are measured beside, of about their size: a convolutional net and a vision Transformer."""

import torch
from torch import Tensor, nn


def conv_net(channels: int, classes: int) -> nn.Sequential:
    """Three 3 x 3 convolutions with batch normalization, the image halved after the first, mean, linear layer.

    It is the teacher too.
    """
    layers: list[nn.Module] = []
    for inputs, outputs, stride in (channels, 16, 1), (16, 48, 2), (48, 48, 1):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, classes))


class VisionTransformer(nn.Module):
    """Patches, learned positions, pre-norm Transformer layers of PyTorch's, mean (Dosovitskiy et al. 2021).

    Args:
        channels, classes, image, patch, dim: as those of ImageModelConfig
        depth, heads: layers, and heads of each
    """

    def __init__(self, channels: int, classes: int, image: int, patch: int, dim: int, depth: int = 2, heads: int = 4):
        super().__init__()
        self.patches = nn.Conv2d(channels, dim, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn((image // patch) ** 2, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.0, "gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, images: Tensor) -> Tensor:
        """``B x channels x image x image -> B x classes``"""
        x = self.patches(images).flatten(2).permute(2, 0, 1) + self.positions
        return self.head(self.norm(self.layers(x)).mean(0))
