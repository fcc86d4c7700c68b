"""``--arch resmlp_transformer``: fairseq's Transformer without self-attention."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import hub_utils, utils
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from omegaconf import open_dict
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import choose
from resmlp_mt.fairseq_plugin.checkpoints import DoesNotFit, check_fit
from resmlp_mt.fairseq_plugin.encoder_decoder import ResMLPDecoder, ResMLPEncoder
from resmlp_mt.fairseq_plugin.options import (
    PRESETS,
    ResMLPTransformerConfig,
    apply_preset,
    check_memory,
    check_options,
    model_config,
)
from resmlp_mt.fairseq_plugin.raw_text import choose_prepared
from resmlp_mt.nn import EncoderDecoder, ModelConfig
from resmlp_mt.nn.elementwise import Dropout
from resmlp_mt.nn.encoder_decoder import fold_, share_
from resmlp_mt.translate.precision import keep_freed_memory, lower_precision_


def from_pretrained(
    model_name_or_path: str | os.PathLike,
    checkpoint_file: str | os.PathLike = "model.pt",
    data_name_or_path: str | os.PathLike = ".",
    **options: Any,
) -> GeneratorHubInterface:
    """Load a trained model; its ``translate`` takes a sentence or a list, and treats them as its data was treated.

    Args:
        model_name_or_path: the checkpoint's folder
        checkpoint_file: its name in that folder; several names, separated by ``:``, make an ensemble
        data_name_or_path: folder of binarized data; if it starts with a dot, the checkpoint's folder is tried first
        options: replace the checkpoint's own, such as ``inference_precision="bf16"``
    """
    folder, data = os.fspath(model_name_or_path), utils.split_paths(os.fspath(data_name_or_path))[0]
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: no such folder: give that of the checkpoint, the checkpoint's name, the data")
    places = [os.path.join(folder, data), data] if data.startswith(".") else [data]
    place = next((each for each in places if any(Path(each).glob("dict.*.txt"))), None)
    if place is None:
        raise UserError(f"{data}: no dict.LANGUAGE.txt: give the folder of the binarized data as the third argument")
    loaded = hub_utils.from_pretrained(folder, os.fspath(checkpoint_file), os.path.abspath(place), **options)
    cfg, task = loaded["args"], loaded["task"]
    choose_prepared(cfg)
    tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
    with open_dict(cfg):
        cfg.tokenizer = cfg.bpe = None  # fairseq would build them without the languages, which the task knows
    interface = GeneratorHubInterface(cfg, task, loaded["models"])
    interface.tokenizer, interface.bpe = tokenizer, bpe
    return interface


@register_model("resmlp_transformer")
class ResMLPTransformerModel(TransformerModelBase):
    """An encoder-decoder that mixes positions by one linear layer (Touvron et al. 2021, "Sequence-to-sequence ResMLP").

    The model is that of ``resmlp_mt.nn``. fairseq provides the embeddings' initial values, the adaptive softmax, layer
    drop, generation and ensembles.
    """

    from_pretrained = staticmethod(from_pretrained)

    def __init__(self, cfg: TransformerConfig, encoder: ResMLPEncoder, decoder: ResMLPDecoder):
        super().__init__(cfg, encoder, decoder)
        share_(self, self.sizes)

    @property
    def sizes(self) -> ModelConfig:
        """The sizes and kinds of the model."""
        return model_config(self.cfg, len(self.encoder.dictionary), len(self.decoder.dictionary))

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the model's options to a parser; those that are not given are left to the preset."""
        gen_parser_from_dataclass(parser, ResMLPTransformerConfig(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "ResMLPTransformerModel":
        """Build the model that fairseq's options describe."""
        apply_preset(args, "resmlp_transformer")  # a checkpoint may be older than some of the options
        check_options(args, len(task.target_dictionary))
        try:
            cfg = ResMLPTransformerConfig.from_namespace(args)
            cfg.no_token_positional_embeddings = not cfg.token_positional_embeddings
            check_memory(model_config(cfg, len(task.source_dictionary), len(task.target_dictionary)))
            choose(str(cfg.cpu_matmul))
            return super().build_model(cfg, task)
        except ValueError as error:  # fairseq's own checks of shared embeddings
            raise UserError(str(error)) from error

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, src_dict: Any, embed_tokens: nn.Embedding) -> ResMLPEncoder:
        return ResMLPEncoder(cfg, model_config(cfg, len(src_dict), 0), src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: TransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> ResMLPDecoder:
        return ResMLPDecoder(cfg, model_config(cfg, 0, len(tgt_dict)), tgt_dict, embed_tokens)

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Load a checkpoint's parameters (of the layers that fairseq's options keep), or raise ``DoesNotFit``."""
        kept = prune_state_dict(state_dict, model_cfg)
        # sinusoidal positions are computed; older checkpoints hold a meaningless number of fairseq's module for them
        kept = {name: kept[name] for name in kept if not name.endswith(".embed_positions._float_tensor")}
        check_fit(kept, self.state_dict(), strict)
        for name, owner in self.sizes.shared.items():
            if strict and not torch.equal(kept[name], kept[owner]):
                raise DoesNotFit(f"{name} is not {owner}, which the model shares: give the options of its training")
        return super().load_state_dict(kept, strict, model_cfg, args)

    def without_fairseq(self) -> EncoderDecoder:
        """Return a copy of this model, which must not be folded, in pure PyTorch and in evaluation mode."""
        result = EncoderDecoder(self.sizes).to(next(self.parameters()).dtype)
        known, state = result.state_dict(), {}
        for name, tensor in self.state_dict().items():
            if "adaptive_softmax." in name:  # PyTorch's class has no dropout between the two layers of a cluster
                name = name.replace(".2.weight", ".1.weight")
            if name in known:
                state[name] = tensor
            elif name.endswith(".quant_noise.weight"):
                raise UserError("--quant-noise-pq trains a layer that fairseq alone has: translate by fairseq-generate")
        result.load_state_dict(state)
        return result.eval()

    def make_generation_fast_(self, **kwargs: Any) -> None:
        """fairseq's hook before inference: fold every Aff, then convert to ``--inference-precision``."""
        if self._is_generation_fast:
            return
        super().make_generation_fast_(**kwargs)
        fold_(self)
        if kwargs.get("retain_dropout"):
            self.retain_dropout_(kwargs.get("retain_dropout_modules"))
        try:
            lower_precision_(self, self.cfg.inference_precision)
        except ValueError as error:
            raise UserError(f"{error}: leave out --fp16 and give --cpu") from error
        if all(parameter.is_cpu for parameter in self.parameters()):
            keep_freed_memory()

    def retain_dropout_(self, classes: list[str] | str | None) -> None:
        """Use dropout in inference too (``--retain-dropout``), in the whole model or in modules of these classes."""
        classes = re.findall(r"\w+", classes) if isinstance(classes, str) else classes  # as the command line gives them
        if missing := sorted({*(classes or ())} - {type(each).__name__ for each in self.modules()}):
            raise UserError(f"--retain-dropout-modules: this model has no {missing[0]}: give EncoderLayer or another")
        for owner in self.modules():
            if classes is None or type(owner).__name__ in classes:
                for module in owner.modules():
                    if isinstance(module, Dropout):
                        module.always = True


for _name in PRESETS:
    register_model_architecture("resmlp_transformer", _name)(partial(apply_preset, name=_name))
