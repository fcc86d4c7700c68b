"""The papers' image models as configurations, built from this toolkit's layers.

An image is cut into patches, and a linear layer makes a vector of each: T x B x C, T patches in reading order, B
images, C channels. Layers, pooling and a linear layer to the classes follow.

ResMLP: Touvron et al. 2021, arXiv 2105.03404. MLP-Mixer: Tolstikhin et al. 2021, arXiv 2105.01601.
S-MLP and B-MLP: Bachmann et al. 2023, arXiv 2306.13575; their one patch is the whole image.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.nn import EncoderLayer, LayerConfig, Mixing, TokenMixing
from resmlp_mt.nn.affine import NORMS
from resmlp_mt.nn.layers import ChannelMLPBranch, ResidualBranch, TokenMixingBranch


@dataclass(frozen=True)
class ImageModelConfig:
    """The configuration of a model; a ``UserError`` if images cannot be cut into patches."""

    dim: int  # channels C
    depth: int  # layers
    patch: int = 16  # side, in pixels
    image: int = 224  # side, in pixels
    channels: int = 3  # of an image
    classes: int = 1000  # 0: no head; the output is the pooled vector
    expansion: int = 4  # the channel MLP's hidden width / C; 0: a layer is LayerNorm, GELU, linear (S-MLP)
    norm: str = "affine"  # or "layernorm"
    mixing: str = "linear"  # one A; or "mlp", Mixer's; or "none"
    mixing_hidden: int = 0  # hidden units of Mixer's token MLP
    layerscale: float = 0  # start value of every LayerScale; 0: there is none
    pooling: str = "mean"  # or "class-mlp", two layers that update only a class token
    last_norm: bool = True  # a norm before the mean, or of the class token
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)  # of each color, for pixels from 0 to 1
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        if self.image < self.patch or self.image % self.patch:
            raise UserError(f"images of {self.image} pixels cannot be cut into patches of {self.patch}: change one")

    def normalized(self, pixels: Tensor) -> Tensor:
        """Turn pixels from 0 to 1 into the model's input, ``... x channels x H x W``."""
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        return (pixels - mean) / std


S12 = ImageModelConfig(384, 12, layerscale=0.1)
S24 = ImageModelConfig(384, 24, layerscale=1e-5)
B24 = ImageModelConfig(768, 24, layerscale=1e-6)
HALF = (0.5, 0.5, 0.5)
S16 = ImageModelConfig(512, 8, norm="layernorm", mixing="mlp", mixing_hidden=256, mean=HALF, std=HALF)
B16 = replace(S16, dim=768, depth=12, mixing_hidden=384)
B_MLP = ImageModelConfig(1024, 12, 64, 64, classes=11230, norm="layernorm", mixing="none", last_norm=False)

MODELS = {
    "resmlp-s12": S12,
    "resmlp-s24": S24,
    "resmlp-s36": replace(S24, depth=36, layerscale=1e-6),
    "resmlp-b24": B24,
    "resmlp-s12/8": replace(S12, patch=8),
    "resmlp-s24/8": replace(S24, patch=8),
    "resmlp-b24/8": replace(B24, patch=8),
    "resmlp-s12-class-mlp": replace(S12, pooling="class-mlp"),
    "resmlp-s24-class-mlp": replace(S24, pooling="class-mlp"),
    "mixer-s/16": S16,
    "mixer-s/32": replace(S16, patch=32),
    "mixer-b/16": B16,
    "mixer-b/32": replace(B16, patch=32),
    "s-mlp-6/1024": replace(B_MLP, depth=5, expansion=0),  # its first linear layer is the patch layer here
    "b-mlp-6/512": replace(B_MLP, dim=512, depth=6),
    "b-mlp-12/512": replace(B_MLP, dim=512),
    "b-mlp-6/1024": replace(B_MLP, depth=6),
    "b-mlp-12/1024": B_MLP,
}
"""Models with the papers' names and sizes; ``resmlp-b24/8`` has patches of 8 pixels, as in the published weights."""

SMALL = ImageModelConfig(32, 3, 2, 8, 1, 10, layerscale=0.3, mean=(0.3,), std=(0.4,))
DIGITS = {
    "resmlp": SMALL,
    "resmlp-pixels": replace(SMALL, patch=1),
    "class-mlp": replace(SMALL, pooling="class-mlp"),
    "mixer": replace(SMALL, norm="layernorm", mixing="mlp", mixing_hidden=32, layerscale=0),
    "no-mixing": replace(SMALL, mixing="none"),
    "b-mlp": replace(SMALL, patch=8, norm="layernorm", mixing="none", layerscale=0, last_norm=False),
    "s-mlp": replace(SMALL, dim=64, depth=5, patch=8, expansion=0, norm="layernorm", mixing="none", last_norm=False),
}
"""Small models of similar size, for gray images of 8 x 8 pixels."""


class TokenMLP(Mixing):
    """``V GELU(U x + c) + b`` over a fixed number of patches, not over sentences (MLP-Mixer's equation 1)."""

    def __init__(self, patches: int, hidden: int):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(patches, hidden), nn.Linear(hidden, patches)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """``T x B x C -> T x B x C``"""
        return self.fc2(F.gelu(self.fc1(x.movedim(0, -1)))).movedim(-1, 0)


class LayerScale(nn.Module):
    """``alpha x`` for each channel. In the translation models it has an offset, too."""

    def __init__(self, dim: int, start: float):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((dim,), start))

    def forward(self, x: Tensor) -> Tensor:
        """``... x C -> ... x C``"""
        return self.alpha * x


class ClassMLPLayer(nn.Module):
    """Updates only the class token, from itself and the patches: a row of A, then a channel MLP ("class-MLP")."""

    def __init__(self, cfg: LayerConfig):
        super().__init__()
        self.mixing = ResidualBranch(cfg)
        self.row = nn.Linear(cfg.positions + 1, 1)
        self.mlp = ChannelMLPBranch(cfg)

    def forward(self, token: Tensor, patches: Tensor) -> Tensor:
        """``1 x B x C, T x B x C -> 1 x B x C``"""
        x = self.mixing.pre_affine(torch.cat([token, patches]))
        return self.mlp(self.mixing.end(token, self.row(x.movedim(0, -1)).movedim(-1, 0)))


class ImageModel(nn.Module):
    """An image model, built from its configuration."""

    def __init__(self, cfg: ImageModelConfig):
        super().__init__()
        self.cfg = cfg
        self.patches = nn.Conv2d(cfg.channels, cfg.dim, cfg.patch, cfg.patch)
        layer = LayerConfig(
            dim=cfg.dim,
            hidden_dim=cfg.expansion * cfg.dim,
            positions=(cfg.image // cfg.patch) ** 2,
            norm=cfg.norm,
            token_mixing="none" if cfg.mixing == "mlp" else cfg.mixing,
        )
        self.layers = nn.ModuleList(self._layer(layer) for _ in range(cfg.depth))
        if cfg.pooling == "class-mlp":
            self.token = nn.Parameter(torch.zeros(1, 1, cfg.dim))
            self.class_layers = nn.ModuleList(ClassMLPLayer(layer) for _ in range(2))
        self.norm = NORMS[cfg.norm](cfg.dim) if cfg.last_norm else nn.Identity()
        self.head = nn.Linear(cfg.dim, cfg.classes) if cfg.classes else nn.Identity()
        for module in self.modules():
            if isinstance(module, ResidualBranch):
                module.post_affine = LayerScale(cfg.dim, cfg.layerscale) if cfg.layerscale else nn.Identity()
            elif isinstance(module, TokenMixing):
                nn.init.trunc_normal_(module.weight, std=0.02)  # as in the authors' code
            elif isinstance(module, nn.LayerNorm):
                module.eps = 1e-6

    def _layer(self, layer: LayerConfig) -> nn.Module:
        if not self.cfg.expansion:
            return nn.Sequential(nn.LayerNorm(layer.dim), nn.GELU(), nn.Linear(layer.dim, layer.dim))
        made = EncoderLayer(layer)
        if self.cfg.mixing == "mlp":
            made.mixing = TokenMixingBranch(TokenMLP(layer.positions, self.cfg.mixing_hidden), layer)
        return made

    def forward(self, images: Tensor) -> Tensor:
        """``B x channels x image x image -> B x classes``, logits."""
        x = self.patches(images).flatten(2).permute(2, 0, 1)
        for layer in self.layers:
            x = layer(x)
        if self.cfg.pooling == "mean":
            return self.head(self.norm(x).mean(0))
        token = self.token.expand(-1, x.size(1), -1)
        for layer in self.class_layers:
            token = layer(token, x)
        return self.head(self.norm(token).squeeze(0))


def count(model: nn.Module) -> int:
    """Return the number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())
