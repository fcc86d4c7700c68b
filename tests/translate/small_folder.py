"""A model's folder that is made in no time, with random weights and without fairseq."""

import string
from pathlib import Path

import torch

from resmlp_mt.nn import EncoderDecoder, LayerConfig, ModelConfig
from resmlp_mt.text.tokenizer import END, SPECIAL, TextSettings
from resmlp_mt.translate import model_folder

POSITIONS = 24
CHARACTERS = [*string.ascii_letters, *string.digits, *".,!?-'äöüß"]
SYMBOLS = [*SPECIAL, *CHARACTERS, *(f"{character}@@" for character in CHARACTERS), "th@@", "the", "in", "er@@"]
CODES = b"#version: 0.2\nt h\ni n</w>\ne r\nth e</w>\n"


def make(
    folder: Path,
    seed: int = 0,
    ending: float = 3.0,
    more: int = 0,
    decoder_positions: str = "none",
    **options: object,
) -> Path:
    """Write a folder.

    Args:
        ending: how much the model likes to end a translation
        more: symbols beside those of the text
        options: of the layers
    """
    symbols = [*SYMBOLS, *(f"<{number}>" for number in range(more))]
    sizes = {"dim": 32, "hidden_dim": 48, "positions": POSITIONS}
    layer: dict[str, object] = {**sizes, "mixing_heads": 4, "layerscale_init": 1.0, **options}
    cfg = ModelConfig(
        source_symbols=len(symbols),
        target_symbols=len(symbols),
        encoder=LayerConfig(**layer),  # type: ignore[arg-type]
        decoder=LayerConfig(**layer, causal=True, source_dim=32, attention_heads=4),  # type: ignore[arg-type]
        encoder_layers=2,
        decoder_layers=2,
        decoder_input_dim=32,
        decoder_output_dim=32,
        decoder_positions=decoder_positions,
    )
    torch.manual_seed(seed)
    model = EncoderDecoder(cfg)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        end = model.decoder.output_projection.weight[END]
        model.decoder.layer_norm.beta.add_(ending * end / end.norm())
    folder.mkdir(parents=True)
    generation = {"num_beams": 4, "length_penalty": 1.0, "max_length": 200}
    model_folder.write(folder, model, TextSettings("en", "de"), CODES, (symbols, symbols), generation)
    return folder
