"""The configuration of a ResMLP encoder-decoder for transformers."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any  # noqa: F401 (the code added to the copy needs the first)

from transformers import PretrainedConfig

from resmlp_mt.nn.config import ModelConfig


class ResMLPConfig(PretrainedConfig):
    """The contents of ``config.json``; ``sizes`` are the fields of a ``ModelConfig``."""

    model_type = "resmlp_mt"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, sizes: dict[str, Any] | None = None, use_cache: bool = True, **kwargs: Any):
        self.sizes = None if sizes is None else asdict(ModelConfig.of(sizes))
        self.use_cache = use_cache
        numbers = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
        shared = sizes is not None and bool(self.model.shared)
        super().__init__(**{**numbers, "is_encoder_decoder": True, "tie_word_embeddings": shared, **kwargs})

    @property
    def model(self) -> ModelConfig:
        """The sizes and kinds of the model."""
        return ModelConfig.of(self.sizes)

    @property
    def hidden_size(self) -> int:
        """Channels of the decoder."""
        return self.model.decoder.dim

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the decoder."""
        return self.model.decoder_layers

    @property
    def vocab_size(self) -> int:
        """Entries of the target dictionary."""
        return self.model.target_symbols


ResMLPConfig.register_for_auto_class()
