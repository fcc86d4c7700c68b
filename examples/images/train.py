"""Train an image model: on scikit-learn's digits, or on a folder of your own. `--help` tells the options.

Methods: supervised; distilled, the labels and a convolutional teacher's decisions weigh the same (Touvron et al. 2021,
DeiT's hard distillation); dino, without labels (Caron et al. 2021), scored by the nearest neighbors of its features.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.errors import UserError, told_in_one_line

with told_in_one_line():  # the imports take a second
    import torch
    import torch.nn.functional as F
    from baselines import conv_net
    from convert import write_model
    from models import DIGITS, MODELS, ImageModel, ImageModelConfig, count, normalizing
    from predict import read_image
    from torch import Tensor, nn

    from resmlp_mt.files import check_can_be_written

METHODS = "supervised", "distilled", "dino"
NEIGHBORS = 20


@dataclass(frozen=True)
class Recipe:
    """AdamW: passes over the images, images a batch, and the highest learning rate."""

    epochs: int
    batch: int = 50
    lr: float = 0.01


@dataclass
class Data:
    """Images of 0 to 1, N x channels x image x image, and their labels, N; the last part of them to test."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: list[str]


def digits() -> Data:
    """scikit-learn's 1,797 digits of 8 x 8, in its order: the first 1,200 to train, so most writers are of one part."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(found.target, dtype=torch.long)
    return Data(images[:1200], labels[:1200], images[1200:], labels[1200:], [str(digit) for digit in range(10)])


def folder(path: Path, size: int, seed: int) -> Data:
    """Images of one's own, one folder a class; a tenth of them, by chance, to test.

    Raises:
        UserError: there are none, or one cannot be read
    """
    try:
        from torchvision.datasets import ImageFolder
    except (ImportError, RuntimeError) as error:  # the latter from a build for another PyTorch
        raise UserError(
            f"--data needs the torchvision for PyTorch {torch.__version__}: see PyTorch's installation page"
        ) from error
    try:
        found = ImageFolder(str(path), loader=lambda file: read_image(Path(file), size))
    except OSError as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}: give a folder with one folder a class") from error
    if len(found.classes) < 2 or len(found) < 10:
        raise UserError(
            f"{path}: {len(found)} images of {len(found.classes)} classes: give 10 images, 2 classes or more"
        )
    images = torch.stack([image for image, _ in found])
    labels = torch.tensor(found.targets)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))
    test, train = order.tensor_split([len(found) // 10])
    return Data(images[train], labels[train], images[test], labels[test], found.classes)


def crops(images: Tensor, smallest: float, largest: float, turn: float = 0.15) -> Tensor:
    """A random part of each image, turned by up to ``turn`` radians, resampled to the size of the whole.

    Args:
        smallest, largest: the part's share of the area; above 1, a border is added
    """
    size = torch.empty(len(images)).uniform_(smallest, largest).sqrt()
    angle = torch.empty(len(images)).uniform_(-turn, turn)
    room = (1 - size).clamp_min(0.125)  # an eighth of half the image, so that the whole moves too
    x, y = ((2 * torch.rand(len(images)) - 1) * room for _ in "xy")
    cos, sin = size * angle.cos(), size * angle.sin()
    part = torch.stack([cos, -sin, x, sin, cos, y], 1).view(-1, 2, 3)
    grid = F.affine_grid(part, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def fit(
    module: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    data: Data,
    recipe: Recipe,
    after_step: Callable[[], None] = lambda: None,
) -> None:
    """Minimize ``loss(images, labels)`` by AdamW, the rate rising for a tenth of the updates, then falling to 0."""
    batch = min(recipe.batch, len(data.images))
    updates = recipe.epochs * (len(data.images) // batch)
    optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], weight_decay=0.05, fused=True)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, total_steps=updates, pct_start=0.1)
    for _ in range(recipe.epochs):
        for chosen in torch.randperm(len(data.images)).split(batch):
            if len(chosen) == batch:
                optimizer.zero_grad()
                loss(data.images[chosen], data.labels[chosen]).backward()
                nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                optimizer.step()
                rate.step()
                after_step()


def learn(model: nn.Module, data: Data, recipe: Recipe, normalized: Callable, teacher: nn.Module | None = None) -> None:
    """By labels, which are smoothed, and, if there is a teacher, by its decisions."""

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        images = normalized(crops(images, 0.7, 1.1))
        logits = model(images)
        of_labels = F.cross_entropy(logits, labels, label_smoothing=0.1)
        if teacher is None:
            return of_labels
        with torch.no_grad():
            decisions = teacher(images).argmax(-1)
        return (of_labels + F.cross_entropy(logits, decisions)) / 2

    fit(model, loss, data, recipe)


class Projection(nn.Module):
    """DINO's head: an MLP, then cosines with learned prototypes."""

    def __init__(self, dim: int, hidden: int = 128, bottleneck: int = 32, prototypes: int = 128):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, bottleneck))
        self.prototypes = nn.Parameter(torch.randn(prototypes, bottleneck))

    def forward(self, x: Tensor) -> Tensor:
        """``B x C -> B x prototypes``"""
        return F.normalize(self.mlp(x), dim=-1) @ F.normalize(self.prototypes, dim=-1).t()


def learn_by_dino(model: ImageModel, data: Data, recipe: Recipe, normalized: Callable) -> None:
    """The student learns from a crop what the teacher sees in another.

    The teacher is the moving average of the student; its outputs are centered, so that no prototype takes all, and
    sharpened by a low temperature, so that they do not become equal. A has a fixed size: crops are as large as images.
    """
    student = nn.Sequential(model, Projection(model.cfg.dim))
    teacher = copy.deepcopy(student).requires_grad_(False)
    center = torch.zeros(len(student[1].prototypes))

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        both = torch.cat([normalized(crops(images, 0.6, 1.1)) for _ in range(2)])
        with torch.no_grad():
            seen = teacher(both)
            targets = ((seen - center) / 0.06).softmax(-1).roll(len(images), 0)  # of the other crop
            center.lerp_(seen.mean(0), 0.1)
        return F.cross_entropy(student(both) / 0.1, targets)

    def follow() -> None:
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.05)

    fit(student, loss, data, recipe, follow)
    model.load_state_dict(teacher[0].state_dict())


@torch.no_grad()
def accuracy(model: nn.Module, data: Data, normalized: Callable) -> float:
    """The share of the test's images whose class has the largest logit."""
    logits = torch.cat([model(normalized(images)) for images in data.test_images.split(100)])
    return (logits.argmax(-1) == data.test_labels).double().mean().item()


@torch.no_grad()
def neighbors_accuracy(features: Callable[[Tensor], Tensor], data: Data) -> float:
    """The same by a vote of the nearest training images, each with the weight exp(cosine / 0.07), as DINO's."""
    known, asked = (
        F.normalize(torch.cat([features(part) for part in images.split(100)]), dim=-1)
        for images in (data.images, data.test_images)
    )
    cosines, nearest = (asked @ known.t()).topk(min(NEIGHBORS, len(known)))
    votes = torch.zeros(len(asked), len(data.classes))
    votes.scatter_add_(1, data.labels[nearest], (cosines / 0.07).exp())
    return (votes.argmax(-1) == data.test_labels).double().mean().item()


def train(cfg: ImageModelConfig, data: Data, method: str, recipe: Recipe, seed: int) -> tuple[ImageModel, float]:
    """A trained model and its accuracy on the test's images."""
    torch.manual_seed(seed)
    normalized = normalizing(cfg)
    model = ImageModel(replace(cfg, classes=0) if method == "dino" else cfg).eval()
    if method == "dino":
        learn_by_dino(model, data, recipe, normalized)
        return model, neighbors_accuracy(lambda images: model(normalized(images)), data)
    teacher = None
    if method == "distilled":
        teacher = conv_net(cfg.channels, cfg.classes).train()
        learn(teacher, data, recipe, normalized)
        teacher.eval()
    learn(model, data, recipe, normalized, teacher)
    return model, accuracy(model, data, normalized)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with one folder of images a class (default: the digits)")
    parser.add_argument("--model", help=f"digits: {', '.join(DIGITS)}; a folder: {', '.join(MODELS)}")
    parser.add_argument("--image", type=int, help="side that a folder's images get (default: the model's)")
    parser.add_argument("--method", choices=METHODS, default="supervised", help="default: %(default)s")
    parser.add_argument("--epochs", type=int, default=60, help="default: %(default)s")
    parser.add_argument("--lr", type=float, help="highest learning rate (default: 0.01; a folder: 0.001)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, help="file for the trained model")
    args = parser.parse_args()
    known = MODELS if args.data else DIGITS
    name = args.model or next(iter(known))
    if name not in known:
        raise UserError(f"--model {name}: give one of {', '.join(known)}")
    lr = (0.001 if args.data else 0.01) if args.lr is None else args.lr
    if args.epochs < 1 or not lr > 0:
        raise UserError(f"--epochs {args.epochs}, --lr {lr}: give at least one epoch and a rate above 0")
    check_can_be_written(args.out)
    cfg = known[name]
    if args.data:
        cfg = replace(cfg, image=args.image or cfg.image)
        data = folder(args.data, cfg.image, args.seed)
        cfg = replace(cfg, classes=len(data.classes))
    else:
        data = digits()
    recipe = Recipe(args.epochs, lr=lr)
    start = time.process_time()
    model, score = train(cfg, data, args.method, recipe, args.seed)
    write_model(args.out, model, [] if args.method == "dino" else data.classes)
    how = f"by {NEIGHBORS} neighbors" if args.method == "dino" else "right"
    print(
        f"{args.out}: {count(model):,} parameters, {score:.1%} of {len(data.test_images)} images {how}, "
        f"{time.process_time() - start:.0f} s of processor time"
    )


if __name__ == "__main__":
    with told_in_one_line():
        main()
