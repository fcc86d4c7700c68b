"""``--arch resmlp_transformer``: fairseq's Transformer without self-attention."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from fairseq import utils
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from torch import Tensor, nn

from resmlp_mt.common.allocator import keep_freed_memory
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import MATMULS, choose
from resmlp_mt.fairseq_plugin.checkpoints.parameters import check_fit
from resmlp_mt.fairseq_plugin.decoder import ResMLPDecoder
from resmlp_mt.fairseq_plugin.encoder import ResMLPEncoder
from resmlp_mt.fairseq_plugin.presets import BASE, FOLLOWS, PRESETS, apply_preset
from resmlp_mt.nn.activation import ACTIVATIONS
from resmlp_mt.nn.dropout import Dropout
from resmlp_mt.nn.layers import ResidualBranch
from resmlp_mt.nn.mixing_kinds import TOKEN_MIXINGS
from resmlp_mt.nn.norm import NORMS
from resmlp_mt.translate.precision import PRECISIONS, lower_precision_

if TYPE_CHECKING:
    from resmlp_mt.fairseq_plugin.hub import TextTranslator

MEANINGLESS = {
    # positional embeddings: off unless --token-positional-embeddings, as A knows the positions
    "no_token_positional_embeddings",
    # LayerNorm: --norm says whether and where there is any
    "normalize_before",
    "layernorm_embedding",
    "no_decoder_final_norm",
    "export",
    # self-attention: there is none
    "cross_self_attention",
    "xformers_att_config",
    # adaptive input embeddings: fairseq's translation Transformer has none either
    "adaptive_input",
    "tie_adaptive_weights",
    "tie_adaptive_proj",
    # for loading a trained model with fewer layers: fairseq reads them from --model-overrides only
    "layers_to_keep",
    # kept by fairseq for checkpoints older than this model, or for models that are not this one
    "base_layers",
    "base_sublayers",
    "base_shuffle",
    "char_inputs",
    "relu_dropout",
}
"""Options of fairseq's Transformer that this model does not have."""


class _WithoutMeaningless:
    """Keeps options that this model does not have out of its command line."""

    def _get_all_attributes(self) -> list[str]:
        return [each.name for each in fields(self) if each.name not in MEANINGLESS]  # type: ignore[arg-type]


@dataclass
class EncoderOptions(_WithoutMeaningless, EncDecBaseConfig):
    """``--encoder-...``; no heads: attention is the decoder's."""

    def _get_all_attributes(self) -> list[str]:
        return [name for name in super()._get_all_attributes() if name != "attention_heads"]


@dataclass
class DecoderOptions(_WithoutMeaningless, DecoderConfig):
    """``--decoder-...``"""


@dataclass
class ResMLPTransformerConfig(_WithoutMeaningless, TransformerConfig):
    """The options of fairseq's Transformer that keep their meaning, and those of ResMLP and its variants."""

    encoder: EncoderOptions = field(default_factory=EncoderOptions)
    decoder: DecoderOptions = field(default_factory=DecoderOptions)
    no_token_positional_embeddings: bool = True
    activation_fn: ChoiceEnum(list(ACTIVATIONS)) = field(  # type: ignore[valid-type]
        default=BASE["activation_fn"], metadata={"help": "activation between the linear layers of a channel MLP"}
    )
    max_source_positions: int = field(
        default=BASE["max_source_positions"],
        metadata={"help": "size of A in the encoder: the longest source, in subwords and </s>"},
    )
    max_target_positions: int = field(
        default=BASE["max_target_positions"],
        metadata={"help": "size of A in the decoder: the longest target, in subwords and </s>"},
    )
    layerscale_init: float = field(
        default=BASE["layerscale_init"],
        metadata={"help": "start of the scale that ends each residual branch (the paper's translation models: 0.2)"},
    )
    token_mixing: str = field(
        default=BASE["token_mixing"],
        metadata={
            "help": "what stands where a Transformer has self-attention, over positions: a linear layer (the paper), "
            "gated (the same between two projections, times a gate of each position), none (a bag of words), mlp "
            "(MLP-Mixer's: two linear layers), or a convolution, conv (of all channels), depthwise or separable "
            "(depthwise, then a linear layer over channels)"
        },
    )
    mixing_heads: int = field(
        default=BASE["mixing_heads"],
        metadata={"help": "linear and gated mixing: groups of channels, each with an A of its own (the paper: 1)"},
    )
    mixing_relative: bool = field(
        default=BASE["mixing_relative"],
        metadata={"help": "linear and gated mixing: add to A a learned term that depends on the distance alone"},
    )
    mixing_dropout: float = field(
        default=BASE["mixing_dropout"],
        metadata={
            "help": "linear and gated mixing: probability that an entry of A, or a band's weight, is left out in a "
            "training step"
        },
    )
    mixing_band: int = field(
        default=BASE["mixing_band"],
        metadata={
            "help": "gated mixing: beside A each position reads so many positions before it, in the encoder also behind"
            " it, by weights that it predicts from its own content; 0: none"
        },
    )
    mixing_expansion: int = field(
        default=BASE["mixing_expansion"], metadata={"help": "mlp mixing: hidden units for each position"}
    )
    mixing_kernel: int = field(
        default=BASE["mixing_kernel"],
        metadata={"help": "convolutions: positions that an output reads, an odd number; in the decoder none is later"},
    )
    norm: ChoiceEnum(list(NORMS)) = field(  # type: ignore[valid-type]
        default=BASE["norm"],
        metadata={"help": "what stands before each branch and at the end of each stack (the paper: affine)"},
    )
    token_positional_embeddings: bool = field(
        default=BASE["token_positional_embeddings"],
        metadata={
            "help": "add fairseq's positional embeddings to the tokens': sinusoidal, or learned with "
            "--encoder-learned-pos and --decoder-learned-pos"
        },
    )
    inference_precision: ChoiceEnum(PRECISIONS) = field(  # type: ignore[valid-type]
        default="fp32",
        metadata={
            "help": "precision of generation, not of training: fp32, bf16, or int8 (weights of linear layers; CPU); "
            "best given to generation by --model-overrides"
        },
    )
    cpu_matmul: ChoiceEnum(MATMULS) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "which library multiplies fp32 matrices on a CPU, in training and generation: blas (PyTorch's own "
            "choice), onednn (faster on some processors; in bfloat16 where they have AMX), or auto: onednn on AMD's, "
            "where it is exact"
        },
    )

    def _get_type(self, attribute_name: str) -> Any:
        """fairseq's hook; the choices of token mixing are those at the time, which ``register_mixing`` adds to."""
        return (
            ChoiceEnum(list(TOKEN_MIXINGS)) if attribute_name == "token_mixing" else super()._get_type(attribute_name)
        )


@register_model("resmlp_transformer")
class ResMLPTransformerModel(TransformerModelBase):
    """An encoder-decoder that mixes positions by one linear layer (Touvron et al. 2021, "Sequence-to-sequence ResMLP").

    Everything but the layers is fairseq's Transformer: embeddings and their sharing, output projection, adaptive
    softmax, layer drop, generation, ensembles.
    """

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the model's options; what is not given is left to the preset."""
        gen_parser_from_dataclass(parser, ResMLPTransformerConfig(), delete_default=True, with_prefix="")

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike,
        checkpoint_file: str | os.PathLike = "model.pt",
        data_name_or_path: str | os.PathLike = ".",
        **kwargs: Any,
    ) -> "TextTranslator":
        """Load a trained model to translate text with: a ``resmlp_mt.fairseq_plugin.hub.TextTranslator``.

        Args:
            model_name_or_path: the checkpoint's folder
            checkpoint_file: its name there; several, with ``:`` between, are an ensemble
            data_name_or_path: folder of binarized data; with a dot in front, in the checkpoint's folder if it is there
            kwargs: options in the place of the checkpoint's own, such as ``inference_precision="bf16"``

        Raises:
            UserError: something is missing, or there is no such option
        """
        from resmlp_mt.fairseq_plugin import hub

        return hub.from_pretrained(cls.add_args, model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "ResMLPTransformerModel":
        """Build the model that fairseq's options describe.

        Raises:
            UserError: options that do not go together
        """
        if getattr(args, "offload_activations", False):
            args.checkpoint_activations = True
        apply_preset(args, "resmlp_transformer")  # a checkpoint may be older than some of the options
        check_options(args, len(task.target_dictionary))
        try:
            cfg = ResMLPTransformerConfig.from_namespace(args)
            cfg.no_token_positional_embeddings = not cfg.token_positional_embeddings
            choose(str(cfg.cpu_matmul))
            return super().build_model(cfg, task)
        except ValueError as error:  # fairseq's own checks of shared embeddings
            raise UserError(str(error)) from error

    @classmethod
    def build_embedding(
        cls, cfg: TransformerConfig, dictionary: Any, embed_dim: int, path: str | None = None
    ) -> nn.Embedding:
        embedding = super().build_embedding(cfg, dictionary, embed_dim)
        if path:
            try:
                vectors = utils.parse_embedding(path)
                word = next((word for word, vector in vectors.items() if vector.numel() != embed_dim), None)
                if word is not None:
                    raise ValueError(f"{word[:100]!r} has {vectors[word].numel()} numbers")
            except (StopIteration, ValueError) as error:
                raise UserError(
                    f"{path}: no embeddings of {embed_dim} numbers ({error}): give a heading line, then lines of a "
                    "word and its numbers"
                ) from error
            utils.load_embedding(vectors, dictionary, embedding)
        return embedding

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> ResMLPEncoder:
        return ResMLPEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> ResMLPDecoder:
        return ResMLPDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Take the parameters of a checkpoint, of the layers that fairseq's options keep.

        Raises:
            DoesNotFit: they are not this model's, or not finite
        """
        kept = prune_state_dict(state_dict, model_cfg)
        check_fit(kept, self.state_dict(), strict)
        return super().load_state_dict(kept, strict, model_cfg, args)

    def upgrade_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """No checkpoint of this model is older than the base class's naming."""

    def make_generation_fast_(self, **kwargs: Any) -> None:
        """fairseq's hook before inference: fold every Aff, then go to ``--inference-precision``.

        Raises:
            UserError: the machine cannot compute in that precision
        """
        if not self._is_generation_fast:
            super().make_generation_fast_(**kwargs)
            for module in self.modules():
                if isinstance(module, ResidualBranch):
                    module.fold_()
            if kwargs.get("retain_dropout"):
                self.retain_dropout_(kwargs.get("retain_dropout_modules"))
            try:
                lower_precision_(self, self.cfg.inference_precision)
            except ValueError as error:
                raise UserError(f"{error}: leave out --fp16 and give --cpu") from error
            if all(parameter.is_cpu for parameter in self.parameters()):
                keep_freed_memory()

    def retain_dropout_(self, classes: list[str] | None) -> None:
        """``--retain-dropout``: drop in inference too, in the whole model or within modules of these classes."""
        for owner in self.modules():
            if classes is None or type(owner).__name__ in classes:
                for module in owner.modules():
                    if isinstance(module, Dropout):
                        module.always = True


def check_options(args: Any, target_symbols: int) -> None:
    """Refuse options that do not go together or that no model can have.

    Args:
        args: the options, preset applied
        target_symbols: entries of the target dictionary

    Raises:
        UserError: with the options concerned
    """

    def require(condition: bool, message: str) -> None:
        if not condition:
            raise UserError(message)

    for option, usual in {**BASE, **dict.fromkeys(FOLLOWS, BASE["encoder_embed_dim"])}.items():
        value = getattr(args, option)
        fits = isinstance(value, int | float) if isinstance(usual, float) else isinstance(value, type(usual))
        require(fits, f"--{option.replace('_', '-')} is {value!r}: give something like {usual!r}")
    for side in "encoder", "decoder":
        for size in "embed_dim", "ffn_embed_dim", "layers":
            value = getattr(args, f"{side}_{size}")
            require(value >= 1, f"--{side}-{size.replace('_', '-')} is {value}: give 1 or more")
    for side in "source", "target":
        value = getattr(args, f"max_{side}_positions")
        require(value >= 2, f"--max-{side}-positions is {value}: a token and </s> already need 2")
    for name in "dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop":
        value = getattr(args, name, None) or 0.0
        require(0 <= value < 1, f"--{name.replace('_', '-')} is {value}: give a probability from 0 to below 1")
    precision = getattr(args, "inference_precision", None) or "fp32"
    require(precision in PRECISIONS, f"--inference-precision {precision}: give one of {', '.join(PRECISIONS)}")
    library = getattr(args, "cpu_matmul", None) or "auto"
    require(library in MATMULS, f"--cpu-matmul {library}: give one of {', '.join(MATMULS)}")
    require(math.isfinite(args.layerscale_init), f"--layerscale-init is {args.layerscale_init}: give a finite number")

    _check_mixing(args, require)
    _check_memory(args, require)
    dim, heads = args.decoder_embed_dim, args.decoder_attention_heads
    require(
        heads >= 1 and dim % heads == 0,
        f"--decoder-embed-dim {dim} is not a multiple of --decoder-attention-heads {heads}",
    )
    cutoff = getattr(args, "adaptive_softmax_cutoff", None)
    if cutoff is not None:
        # a list, unless a checkpoint or --model-overrides gives a string, which fairseq would run as Python
        whole = isinstance(cutoff, list) and bool(cutoff) and all(type(each) is int for each in cutoff)
        require(whole, f"--adaptive-softmax-cutoff is {cutoff!r}: give whole numbers")
        require(
            cutoff == sorted(set(cutoff)) and cutoff[0] > 0 and cutoff[-1] < target_symbols,
            f"--adaptive-softmax-cutoff {cutoff} must rise and end below {target_symbols}, the target dictionary",
        )
        criterion = getattr(args, "criterion", "adaptive_loss")
        require(
            criterion == "adaptive_loss", f"--adaptive-softmax-cutoff needs --criterion adaptive_loss, not {criterion}"
        )
    if getattr(args, "share_all_embeddings", False) or getattr(args, "share_decoder_input_output_embed", False):
        out = args.decoder_output_dim
        require(out == dim, f"shared embeddings need --decoder-output-dim {out} to equal --decoder-embed-dim {dim}")


def _check_mixing(args: Any, require: Callable[[bool, str], None]) -> None:
    """The options of token mixing and of what is beside it; --model-overrides may say anything."""
    for option, choices in ("token_mixing", TOKEN_MIXINGS), ("norm", NORMS), ("activation_fn", ACTIVATIONS):
        value = getattr(args, option)
        own = ", or the --user-dir that registers it" if option == "token_mixing" else ""
        require(value in choices, f"--{option.replace('_', '-')} {value}: give one of {', '.join(choices)}{own}")
    heads, kernel, expansion = args.mixing_heads, args.mixing_kernel, args.mixing_expansion
    for side in "encoder", "decoder":
        dim = getattr(args, f"{side}_embed_dim")
        fits = heads >= 1 and dim % heads == 0
        require(fits, f"--{side}-embed-dim {dim} is not a multiple of --mixing-heads {heads}")
        idle = getattr(args, f"{side}_learned_pos", False) and not args.token_positional_embeddings
        require(not idle, f"--{side}-learned-pos needs --token-positional-embeddings")
    given = {
        f"--mixing-heads {heads}": heads != 1,
        "--mixing-relative": args.mixing_relative,
        f"--mixing-dropout {args.mixing_dropout}": args.mixing_dropout != 0,
    }
    without_a = ("none", "mlp", "conv", "depthwise", "separable")
    for option, asked in given.items():
        wrong = asked and args.token_mixing in without_a
        require(not wrong, f"{option} is for --token-mixing linear or gated, not {args.token_mixing}")
    band, ungated = args.mixing_band, args.token_mixing in ("linear", *without_a)
    require(band >= 0, f"--mixing-band is {band}: give 0 or more")
    require(not (band and ungated), f"--mixing-band {band} is for --token-mixing gated, not {args.token_mixing}")
    require(0 <= args.mixing_dropout < 1, f"--mixing-dropout is {args.mixing_dropout}: give a number from 0 to below 1")
    require(kernel >= 1 and kernel % 2 == 1, f"--mixing-kernel is {kernel}: give an odd number from 1")
    require(expansion >= 1, f"--mixing-expansion is {expansion}: give 1 or more")


def _check_memory(args: Any, require: Callable[[bool, str], None]) -> None:
    """Refuse more positions than this machine can hold the mixings of: their memory grows with the square."""
    of_a = {"linear": args.mixing_heads, "gated": args.mixing_heads, "mlp": 2 * args.mixing_expansion}
    matrices = of_a.get(args.token_mixing, 0)
    needs = {
        "source": args.encoder_layers * matrices * args.max_source_positions**2 * 4,  # bytes
        "target": args.decoder_layers * matrices * args.max_target_positions**2 * 4,
    }
    side = max(needs, key=lambda side: needs[side])
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    require(
        2 * sum(needs.values()) <= has,  # a training has gradients beside them, generation what it loads them from
        f"--max-{side}-positions {getattr(args, f'max_{side}_positions')}: the token mixing of its layers needs "
        f"{needs[side] / 1e9:,.1f} GB, and as much for its gradients; this machine has {has / 1e9:,.1f} GB: lower it",
    )


for _name in PRESETS:
    register_model_architecture("resmlp_transformer", _name)(partial(apply_preset, name=_name))
