"""Train an image model: on scikit-learn's digits, or on a folder of your own. `--help` tells the options.

Methods: supervised; distilled, the labels and a convolutional teacher's decisions weigh the same (Touvron et al. 2021,
DeiT's hard distillation); dino, without labels (Caron et al. 2021), scored by the nearest neighbors of its features.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from resmlp_mt.common.errors import UserError, one_line_errors

with one_line_errors():  # the imports take a second
    import numpy as np
    import torch
    import torch.nn.functional as F
    from convert import write_model
    from models import DIGITS, MODELS, SMALL, ImageModel, ImageModelConfig, count
    from predict import read_image
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier
    from torch import Tensor, nn
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    from resmlp_mt.cli.arguments import command_parser, number_within
    from resmlp_mt.common.files import check_can_be_written

METHODS = "supervised", "distilled", "dino"
NEIGHBORS = 20


@dataclass(frozen=True)
class Recipe:
    """How a model is trained, by AdamW."""

    method: str = "supervised"  # one of METHODS, or "untrained"
    epochs: int = 40  # passes over the images
    lr: float = 0.01  # the highest learning rate
    seed: int = 1
    batch: int = 50  # images


@dataclass
class Data:
    """Normalized images, N x channels x image x image, and their labels, N, for training and for the test."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: list[str]


def digits() -> Data:
    """Load scikit-learn's 1,797 digits of 8 x 8: the first 1,200 for training, so most writers are in one part only."""
    found = load_digits()
    images = SMALL.normalized(torch.tensor(found.images, dtype=torch.float32)[:, None] / 16)
    labels = torch.tensor(found.target)
    return Data(images[:1200], labels[:1200], images[1200:], labels[1200:], [str(digit) for digit in range(10)])


def folder(path: Path, cfg: ImageModelConfig, seed: int) -> Data:
    """Load a user's images, one folder per class, with a random tenth for the test, or raise a ``UserError``."""
    try:
        from torchvision.datasets import ImageFolder
    except (ImportError, RuntimeError) as error:  # the latter from a build for another PyTorch
        raise UserError(f"--data: install the torchvision for PyTorch {torch.__version__}: see pytorch.org") from error
    try:
        found = ImageFolder(str(path), loader=lambda file: read_image(Path(file), cfg))
    except OSError as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}: give a folder with one folder a class") from error
    if len(found.classes) < 2 or len(found) < 10:
        raise UserError(f"{path}: {len(found)} images, {len(found.classes)} classes: give 10 and 2, or more")
    images, labels = torch.stack([image for image, _ in found]), torch.tensor(found.targets)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))
    test, train = order.tensor_split([len(found) // 10])
    return Data(images[train], labels[train], images[test], labels[test], found.classes)


def crops(images: Tensor, smallest: float, turn: float = 0.15) -> Tensor:
    """Cut out a random part of each image, turned by up to ``turn`` radians, resampled to the size of the image.

    The part has ``smallest`` to 1.1 times the area; outside of the image it is as dark as the darkest pixel.
    """
    size = torch.empty(len(images)).uniform_(smallest, 1.1).sqrt()
    angle = torch.empty(len(images)).uniform_(-turn, turn)
    room = (1 - size).clamp_min(0.125)  # an eighth of half the image, so that whole images move, too
    x, y = ((2 * torch.rand(len(images)) - 1) * room for _ in "xy")
    cos, sin = size * angle.cos(), size * angle.sin()
    part = torch.stack([cos, -sin, x, sin, cos, y], 1).view(-1, 2, 3)
    grid = F.affine_grid(part, list(images.shape), align_corners=False)
    dark = images.min()
    return F.grid_sample(images - dark, grid, align_corners=False) + dark


def fit(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], data: Data, recipe: Recipe) -> None:
    """Minimize ``loss(images, labels)`` by AdamW, the rate rising for a tenth of the updates, then falling to 0."""
    batches = max(len(data.images) // recipe.batch, 1)  # full ones, or the only one
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, recipe.epochs * batches, pct_start=0.1)
    model.train()
    for _ in range(recipe.epochs):
        for chosen in torch.randperm(len(data.images)).split(recipe.batch)[:batches]:
            optimizer.zero_grad()
            loss(data.images[chosen], data.labels[chosen]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()


def learn(model: nn.Module, data: Data, recipe: Recipe, teacher: nn.Module | None = None) -> None:
    """Train on smoothed labels and, if there is a teacher, on its decisions."""

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        images = crops(images, 0.7)
        logits = model(images)
        of_labels = F.cross_entropy(logits, labels, label_smoothing=0.1)
        if teacher is None:
            return of_labels
        with torch.no_grad():
            decisions = teacher(images).argmax(-1)
        return (of_labels + F.cross_entropy(logits, decisions)) / 2

    fit(model, loss, data, recipe)


def conv_net(channels: int = 1, classes: int = 10) -> nn.Sequential:
    """Return the teacher: three 3 x 3 convolutions (the second one halves the image), mean, linear layer."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in (channels, 16, 1), (16, 48, 2), (48, 48, 1):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, classes))


class Projection(nn.Module):
    """DINO's head: an MLP, then cosines with 128 learned prototypes."""

    def __init__(self, dim: int):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, 32))
        self.prototypes = nn.Parameter(torch.randn(128, 32))

    def forward(self, x: Tensor) -> Tensor:
        """``B x C -> B x 128``"""
        return F.normalize(self.mlp(x), dim=-1) @ F.normalize(self.prototypes, dim=-1).t()


def learn_by_dino(model: ImageModel, data: Data, recipe: Recipe) -> None:
    """Train without labels: from one crop, the student learns the teacher's output for another crop.

    The teacher is the moving average of the student; its outputs are centered, so that no prototype takes all, and
    sharpened by a low temperature, so that they do not become equal. A has a fixed size: crops are as large as images.
    """
    student = nn.Sequential(model, Projection(model.cfg.dim))
    teacher = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    center = torch.zeros(128)

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        both = torch.cat([crops(images, 0.6), crops(images, 0.6)])
        with torch.no_grad():
            teacher.update_parameters(student)
            seen = teacher(both)
            targets = ((seen - center) / 0.06).softmax(-1).roll(len(images), 0)  # of the other crop
            center.lerp_(seen.mean(0), 0.1)
        return F.cross_entropy(student(both) / 0.1, targets)

    fit(student, loss, data, recipe)
    model.load_state_dict(teacher.module[0].state_dict())


@torch.no_grad()
def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """Compute ``N x channels x image x image -> N x C``, 100 images at a time."""
    return torch.cat([model(some) for some in images.split(100)])


def accuracy(model: nn.Module, data: Data) -> float:
    """Return the share of the test images whose class has the largest logit."""
    return (outputs(model, data.test_images).argmax(-1) == data.test_labels).double().mean().item()


def neighbors_accuracy(model: nn.Module, data: Data) -> float:
    """Return the accuracy of a vote of the nearest training images, weighted by exp(cosine / 0.07), as in DINO."""
    vote = KNeighborsClassifier(
        min(NEIGHBORS, len(data.images)), metric="cosine", weights=lambda distances: np.exp((1 - distances) / 0.07)
    )
    vote.fit(outputs(model, data.images).numpy(), data.labels.numpy())
    return float(vote.score(outputs(model, data.test_images).numpy(), data.test_labels.numpy()))


def train(make: Callable[[], nn.Module], data: Data, recipe: Recipe) -> tuple[nn.Module, float]:
    """Train the model that ``make`` makes (for dino, without classes); return it and its accuracy on test images."""
    torch.manual_seed(recipe.seed)
    model, teacher = make(), None
    if recipe.method == "dino":
        learn_by_dino(model, data, recipe)
    if recipe.method in ("dino", "untrained"):
        return model, neighbors_accuracy(model, data)
    if recipe.method == "distilled":
        teacher = conv_net(data.images.size(1), len(data.classes))
        learn(teacher, data, recipe)
    learn(model, data, recipe, teacher)
    return model, accuracy(model, data)


def main() -> None:
    """Run the command."""
    parser = command_parser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with one folder of images a class (default: the digits)")
    parser.add_argument("--model", help=f"digits: {', '.join(DIGITS)}; a folder: {', '.join(MODELS)}")
    parser.add_argument(
        "--image", type=number_within(1, 4096), help="side that a folder's images get (default: the model's)"
    )
    parser.add_argument("--method", choices=METHODS, default="supervised", help="default: %(default)s")
    parser.add_argument("--epochs", type=number_within(1, 100_000), default=40, help="default: %(default)s")
    parser.add_argument("--lr", type=float, help="highest learning rate (default: 0.01; a folder: 0.001)")
    parser.add_argument("--seed", type=number_within(0, 999_999_999), default=1, help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, help="file for the trained model")
    args = parser.parse_args()
    known = MODELS if args.data else DIGITS
    name = args.model or next(iter(known))
    lr = (0.001 if args.data else 0.01) if args.lr is None else args.lr
    if name not in known:
        raise UserError(f"--model {name}: give one of {', '.join(known)}")
    if args.image and not args.data:
        raise UserError("--image is for a folder's images: give --data too")
    if not 0 < lr < 1:
        raise UserError(f"--lr {lr}: give a rate between 0 and 1")
    check_can_be_written(args.out)
    cfg = replace(known[name], image=args.image or known[name].image)
    data = folder(args.data, cfg, args.seed) if args.data else digits()
    cfg = replace(cfg, classes=0 if args.method == "dino" else len(data.classes))
    start = time.process_time()
    model, score = train(lambda: ImageModel(cfg), data, Recipe(args.method, args.epochs, lr, args.seed))
    write_model(args.out, model, data.classes if cfg.classes else [])
    how = "right" if cfg.classes else f"by {NEIGHBORS} neighbors"
    print(
        f"{args.out}: {count(model):,} parameters, {score:.1%} of {len(data.test_images)} images {how}, "
        f"{time.process_time() - start:.0f} s of processor time"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
