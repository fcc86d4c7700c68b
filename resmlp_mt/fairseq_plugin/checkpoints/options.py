"""The options in a checkpoint: plain values, which fairseq neither runs as Python nor takes as files to open."""

import ast
import operator
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from resmlp_mt.common.errors import UserError

EVALUATED: dict[str, tuple[str, ...]] = {
    "fairseq.models.fconv": ("encoder_layers", "decoder_layers", "decoder_attention"),
    "fairseq.models.fconv_lm": ("decoder_layers", "decoder_attention"),
    "fairseq.models.fconv_self_att": (
        "pretrained", "encoder_layers", "encoder_attention", "decoder_layers", "decoder_attention", "self_attention",
        "project_input", "gated_attention", "downsample",
    ),
    "fairseq.models.lightconv_lm": ("character_filters",),
    "fairseq.models.transformer_lm": ("character_filters",),
    "fairseq.models.hubert.hubert": ("conv_feature_layers",),
    "fairseq.models.speech_to_text.s2t_wav_transformer": ("conv_feature_layers",),
    "fairseq.models.wav2vec.wav2vec": ("conv_feature_layers", "conv_aggregator_layers"),
    "fairseq.models.wav2vec.wav2vec2": ("conv_feature_layers",),
    "fairseq.criterions.ctc": ("wer_args",),
    "fairseq.data.audio.raw_audio_dataset": ("conv_feature_layers", "feature_encoder_spec"),
    "fairseq.utils": (  # its eval_str_list, eval_str_dict and eval_bool
        # every model with fairseq's Transformer layers or decoder; lightconv, lstm, fconv_lm; their language models
        "adaptive_softmax_cutoff", "adaptive_input_cutoff",
        "encoder_xformers_att_config", "decoder_xformers_att_config", "xformers_att_config",
        # lstm
        "decoder_attention",
        # the tasks multilingual_translation, online_backtranslation, translation_multi_simple_epoch
        "left_pad_source", "left_pad_target",
        # pipeline_parallel_transformer
        "pipeline_balance", "pipeline_devices", "pipeline_encoder_balance", "pipeline_encoder_devices",
        "pipeline_decoder_balance", "pipeline_decoder_devices",
    ),
}  # fmt: skip
"""Modules of fairseq that evaluate options of a checkpoint's models, tasks and criterions as Python, and which.

(Those of optimizers are evaluated too, but fairseq takes them from the command line alone.)
"""

_NONE = (
    # embeddings, of many models: a trained model's are among its weights
    "encoder_embed_path", "decoder_embed_path", "embed_path",
    # other models' weights to begin with: fconv_self_att, roberta, xlm, speech
    "pretrained_checkpoint", "pretrained_mlm_checkpoint", "pretrained_xlm_checkpoint",
    "load_pretrained_encoder_from", "load_pretrained_decoder_from", "load_pretrained_aux_decoder_from",
    # tasks: dictionaries, settings
    "lang_dict", "source_dict", "target_dict", "fixed_dictionary", "label_dir", "speaker_emb_path", "config_yaml",
    "multitask_config_yaml",
    # criterions: sentence_ranking writes the first; ctc
    "save_predictions", "wer_kenlm_model", "wer_lexicon",
    # generation: an alignment dictionary; subwords of BERT and of GPT-2, which fairseq would else download
    "replace_unk", "bpe_vocab_file", "gpt2_encoder_json", "gpt2_vocab_bpe",
    # imported
    "user_dir",
)  # fmt: skip
_REQUIRED = (
    # wav2vec, hubert
    "w2v_path", "seq2seq_path",
    # subwords
    "bpe_codes", "bpe_merges", "bpe_vocab", "sentencepiece_model", "sentencepiece_model_path",
)  # fmt: skip
OPENED: dict[str, str | None] = {**dict.fromkeys(_NONE), **dict.fromkeys(_REQUIRED, "???")}
"""Options that name what fairseq opens, downloads or imports as it loads a trained model, each with its "none".

What a checkpoint says of them is dropped: they served its training. Who needs one gives it (``--model-overrides``, the
arguments of ``from_pretrained``).
"""

REGISTRIES = {"bpe", "scoring", "tokenizer"}
"""Options that hydra makes part of a file's name where they come from an old checkpoint's ``args``."""

LONGEST = 4096
"""characters of an evaluated option, and values of a list in it; fairseq's own presets have up to 190"""

_EVALUATED_NAMES = {name for names in EVALUATED.values() for name in names}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(text: Any) -> Any:
    """Read what fairseq would evaluate: literals of Python, + - * / of numbers, lists or tuples added, lists repeated.

    And nothing else.

    Raises:
        TypeError: it is no text; fairseq counts on it, which Python's ``eval`` raises too
    """
    if not isinstance(text, str):
        raise TypeError(f"text is evaluated, not {type(text).__name__}")
    try:
        if len(text) > LONGEST:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        raise UserError(
            f"{text!r:.200}: fairseq would run this option as Python: give literals, such as [(512, 3)] * 4"
        ) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(each) for each in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _value(node.left), _value(node.right)
        kinds = {type(left), type(right)}
        is_repeated = isinstance(node.op, ast.Mult) and kinds == {list, int}
        if is_repeated:
            values, times = (left, right) if isinstance(left, list) else (right, left)
            if len(values) * times > LONGEST:
                raise ValueError
        is_added = isinstance(node.op, ast.Add) and kinds in ({list}, {tuple})
        if is_repeated or is_added or kinds <= {int, float}:
            return _ARITHMETIC[type(node.op)](left, right)
    return ast.literal_eval(node)  # complex numbers are sums, too; of all else it raises ValueError


def settled(value: Any, name: str = "") -> Any:
    """A copy of a checkpoint's options (``args``, or ``cfg`` with its parts) in which no file is named.

    An option that is no plain value, or would be run as Python or resolved as something else than it says, is refused.

    Args:
        name: of the option that the value is of
    """
    if isinstance(value, Namespace):
        return Namespace(**settled(vars(value), name))
    if isinstance(value, Mapping) and all(type(key) in (str, int) for key in value):
        return {key: settled(each, str(key)) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(settled(each, name) for each in value)
    if isinstance(value, str):
        return _checked(value, name)
    if value is None or type(value) in (bool, int, float):
        return value
    raise UserError(f"its option {name} holds a {type(value).__name__}, as none of fairseq's: do not trust it")


def _checked(value: str, name: str) -> str | None:
    if name in OPENED:
        return OPENED[name] if value else value  # an empty one names no file
    if "${" in value:
        raise UserError(f"its option {name}, {value!r:.200}, would be replaced by another value: do not trust it")
    if name in REGISTRIES and not re.fullmatch(r"[\w-]*", value):
        raise UserError(f"its option {name}, {value!r:.200}, is no name: do not trust it")
    if name in _EVALUATED_NAMES:
        try:
            evaluate(value)
        except UserError:
            raise UserError(f"fairseq might run its option {name}, {value!r:.200}: do not trust it") from None
    return value
