"""The tokenizer of a ResMLP for transformers: text to numbers and back, exactly as its training data was prepared."""

import os
import shutil
from dataclasses import fields
from typing import TYPE_CHECKING, Any  # noqa: F401 (the code added to the copy needs the first)

from transformers import PreTrainedTokenizer

from resmlp_mt.text.tokenizer import END, SPECIAL, UNKNOWN, TextSettings, Tokenizer

FILES = {"source_file": "source_symbols.txt", "target_file": "target_symbols.txt", "learned_file": "subwords.model"}


class ResMLPTokenizer(PreTrainedTokenizer):
    """Encodes source text and decodes target text; ``text_target=...`` encodes target text.

    ``settings`` are the fields of ``TextSettings``, and transformers' own.
    """

    vocab_files_names = FILES
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, source_file: str, target_file: str, learned_file: str, **settings: Any):
        known = {field.name: settings[field.name] for field in fields(TextSettings) if field.name in settings}
        self._files = {"source_file": source_file, "target_file": target_file, "learned_file": learned_file}
        sides = []
        for path in source_file, target_file:
            with open(path, encoding="utf-8", newline="\n") as file:
                sides.append(file.read().split("\n")[:-1])
        self.text = Tokenizer(TextSettings(**known), learned_file, *sides)
        self._of_target = False
        special = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL, strict=True))
        super().__init__(**{**special, **settings})

    @property
    def vocab_size(self) -> int:
        """Entries of the source dictionary, or of the target dictionary while target text is encoded."""
        return len(self.text.vocabularies[self._of_target])

    def get_vocab(self) -> dict[str, int]:
        """Return the symbols of the current side, and their numbers."""
        return dict(self.text.vocabularies[self._of_target])

    def _switch_to_input_mode(self) -> None:
        self._of_target = False

    def _switch_to_target_mode(self) -> None:
        self._of_target = True

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """Return the subwords of a line of text, in which ``<unk>`` and other special symbols are ordinary words."""
        return self.text.pieces(text, self._of_target)

    def _convert_token_to_id(self, token: str) -> int:
        return self.text.vocabularies[self._of_target].get(token, UNKNOWN)

    def _convert_id_to_token(self, index: int) -> str:
        return (self.text.target if self._of_target else self.text.source)[index]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Add ``</s>`` at the end."""
        return [*token_ids_0, *(token_ids_1 or []), END]

    def _decode(self, token_ids: int | list[int], *args: Any, **kwargs: Any) -> str:
        """Return running text of the target language, without ``</s>`` and other special symbols."""
        numbers = [token_ids] if isinstance(token_ids, int) else token_ids
        return self.text.decode(number for number in numbers if number >= 0)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Copy the dictionaries and the learned subwords; return their new paths."""
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        paths = []
        for name, path in self._files.items():
            paths.append(os.path.join(save_directory, f"{prefix}{FILES[name]}"))
            if os.path.abspath(path) != os.path.abspath(paths[-1]):
                shutil.copyfile(path, paths[-1])
        return tuple(paths)


ResMLPTokenizer.register_for_auto_class("AutoTokenizer")
