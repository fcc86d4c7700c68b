"""A model's folder with random weights, made quickly and without fairseq."""

import string

import torch

from resmlp_mt.nn import EncoderDecoder, LayerConfig, ModelConfig
from resmlp_mt.text.tokenizer import END, SPECIAL, TextSettings
from resmlp_mt.translate import model_folder

POSITIONS = 24
CHARACTERS = [*string.ascii_letters, *string.digits, *".,!?-'äöüß"]
SYMBOLS = [*SPECIAL, *CHARACTERS, *(f"{character}@@" for character in CHARACTERS), "th@@", "the", "in", "er@@"]
TEXTS = ["the hen in there.", "A man.", "", "Is it the other?", "Well, no one sings here!"]
LONG = "The hen in there is a man. " * 5
CODES = b"#version: 0.2\nt h\ni n</w>\ne r\nth e</w>\n"


def make(folder, seed=0, more=0, decoder_positions="none", **options):
    """Write a model's folder; ``options`` are those of its layers, ``more`` is a number of additional symbols."""
    symbols = [*SYMBOLS, *(f"<{number}>" for number in range(more))]
    layer = {"dim": 32, "hidden_dim": 48, "positions": POSITIONS, "mixing_heads": 4, "layerscale_init": 1.0, **options}
    cfg = ModelConfig(
        source_symbols=len(symbols),
        target_symbols=len(symbols),
        encoder=LayerConfig(**layer),
        decoder=LayerConfig(**layer, causal=True, source_dim=32, attention_heads=4),
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
        model.decoder.layer_norm.beta.add_(3 * end / end.norm())  # so that translations end
    folder.mkdir(parents=True)
    generation = {"num_beams": 4, "length_penalty": 1.0, "max_length": 200}
    model_folder.write(folder, model, TextSettings("en", "de"), CODES, (symbols, symbols), generation)
    return folder
