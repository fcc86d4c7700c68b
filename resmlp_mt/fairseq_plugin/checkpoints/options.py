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
"""characters of an evaluated option; fairseq's own presets have up to 190"""
MOST = 10_000
"""values in an evaluated option; fairseq's own presets have up to 90"""
DEEPEST, MOST_OPTIONS = 20, 100_000


def evaluate(text: Any) -> Any:
    """Read what fairseq would evaluate: literals of Python, + - * / of numbers, lists or tuples added, lists repeated.

    And nothing else.

    Raises:
        UserError: it is anything else, or too much
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
            f"{_shown(text)}: fairseq would run this option as Python: give literals, such as [(512, 3)] * 4"
        ) from None


def settled(options: Any) -> Any:
    """A copy of a checkpoint's options (``args``, or ``cfg`` with its parts) in which no file is named.

    Raises:
        UserError: an option is no plain value, or would be run as Python or resolved as something else than it says
    """
    left = [MOST_OPTIONS]

    def copy(value: Any, name: str, depth: int) -> Any:
        left[0] -= 1
        if depth > DEEPEST or left[0] < 0:
            raise UserError("its options hold themselves, or too many others: do not trust it")
        if isinstance(value, Namespace):
            namespace = Namespace()
            vars(namespace).update(copy(vars(value), name, depth + 1))
            return namespace
        if isinstance(value, Mapping):
            if not all(type(key) in (str, int) for key in value):
                raise UserError(f"its option {name} has a key that is neither text nor a number: do not trust it")
            return {key: copy(each, str(key), depth + 1) for key, each in value.items()}
        if type(value) in (list, tuple):
            return type(value)(copy(each, name, depth + 1) for each in value)
        if isinstance(value, str):
            return _checked(value, name)
        if value is None or type(value) in (bool, int, float):
            return value
        raise UserError(
            f"its option {name} is of the type {type(value).__name__}, as none of fairseq's: do not trust it"
        )

    return copy(options, "", 0)


def _checked(value: str, name: str) -> str | None:
    if name in OPENED:
        return OPENED[name] if value else value  # an empty one names no file
    if "${" in value:
        raise UserError(f"its option {name}, {_shown(value)}, would be replaced by another value: do not trust it")
    if name in REGISTRIES and not re.fullmatch(r"[\w-]*", value):
        raise UserError(f"its option {name}, {_shown(value)}, is no name: do not trust it")
    if name in _EVALUATED_NAMES:
        try:
            evaluate(value)
        except UserError:
            raise UserError(f"fairseq might run its option {name}, {_shown(value)}: do not trust it") from None
    return value


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

_EVALUATED_NAMES = {name for names in EVALUATED.values() for name in names}


def _shown(value: str) -> str:
    return repr(value if len(value) <= 200 else value[:200] + "...")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(each) for each in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _value(node.left), _value(node.right)
        if type(left) in (int, float) and type(right) in (int, float):
            return _ARITHMETIC[type(node.op)](left, right)
        if isinstance(node.op, ast.Add) and type(left) is type(right) and isinstance(left, list | tuple):
            _bound(_size(left) + _size(right))
            return left + right
        if isinstance(node.op, ast.Mult) and {type(left), type(right)} == {list, int}:
            values, times = (left, right) if isinstance(left, list) else (right, left)
            _bound(_size(values) * times)
            return values * times
    return ast.literal_eval(node)  # complex numbers are sums, too; of all else it raises ValueError


def _bound(size: int) -> None:
    if size > MOST:
        raise ValueError


def _size(value: Any) -> int:
    """How many values there are in it, itself included."""
    return 1 + sum(map(_size, value)) if isinstance(value, list | tuple) else 1
