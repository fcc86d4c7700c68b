"""Draw what a Transformer's self-attention and a ResMLP's A read, in the first encoder layer, for two sentences.

python examples/toy_en_de/attention_and_a.py --data DATA_BIN --transformer CHECKPOINT --resmlp CHECKPOINT --out FILE.png

For the picture of README, each was trained for five epochs on the demo's data (25 November 2026): --seed 1, width 128,
MLP 256, 2+2 layers, --share-all-embeddings --dropout 0.1 --label-smoothing 0.1 --max-tokens 2048 --clip-norm 1.0, 300
updates of warm-up. resmlp_transformer_tiny had Adagrad with the fixed rate 0.1. The Transformer, with one head in the
encoder, had Adam, 1e-3, inverse_sqrt. Their perplexities on valid are 1.63 and 1.65.
"""

import argparse
from pathlib import Path

import matplotlib
import torch
from fairseq import checkpoint_utils
from matplotlib import pyplot
from torch import Tensor

import resmlp_mt.fairseq_plugin  # noqa: F401 (registers the models)

matplotlib.use("agg")
SENTENCES = (75, 342)  # of the test set


def attention(model: torch.nn.Module, tokens: Tensor) -> Tensor:
    """Return the weights of the first layer's self-attention, T x T."""
    x = model.encoder.forward_embedding(tokens[None])[0].transpose(0, 1)
    return model.encoder.layers[0].self_attn(x, x, x, need_weights=True)[1][0]


def mixing(model: torch.nn.Module, tokens: Tensor) -> Tensor:
    """Return the used part of the first layer's A, T x T. Only the number of tokens matters."""
    return model.encoder.layers[0].mixing.mixing.rows(0, len(tokens))


def show(axis: pyplot.Axes, weights: Tensor, words: list[str], colors: str) -> None:
    """Draw one matrix, with a row for each position that reads."""
    most = weights.abs().max().item()
    axis.imshow(weights, cmap=colors, vmin=-most if colors == "RdBu" else 0, vmax=most)
    axis.set_xticks(range(len(words)), words, rotation=90, fontsize=9)
    axis.set_yticks(range(len(words)), words, fontsize=9)
    axis.tick_params(length=0)


@torch.no_grad()
def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in "--data", "--transformer", "--resmlp", "--out":
        parser.add_argument(option, required=True, type=Path)
    args = parser.parse_args()
    for path in args.data, args.transformer, args.resmlp:
        if not path.exists():
            parser.error(f"{path}: no such file or folder")
    figure, axes = pyplot.subplots(2, 2, figsize=(8.5, 7.6), layout="constrained")
    titles = (
        "Transformer: self-attention,\ncomputed from each sentence",
        "ResMLP: the matrix A,\nlearned once, the same for every sentence",
    )
    systems = (args.transformer, attention, "Greys"), (args.resmlp, mixing, "RdBu")
    for column, title, (path, weights_of, colors) in zip(axes.T, titles, systems, strict=True):
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(args.data)})
        model.eval()
        task.load_dataset("test")
        for axis, number in zip(column, SENTENCES, strict=True):
            tokens = task.dataset("test")[number]["source"]
            words = task.source_dictionary.string(tokens, extra_symbols_to_ignore={}).split()
            show(axis, weights_of(model, tokens), [*words, "end"], colors)
        column[0].set_title(title, fontsize=12)
    figure.savefig(args.out, dpi=100)


if __name__ == "__main__":
    main()
