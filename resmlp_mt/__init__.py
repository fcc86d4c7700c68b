"""Translation without self-attention: ResMLP encoder-decoders, trained by fairseq and used with or without it.

``--user-dir resmlp_mt`` imports this package after fairseq is loaded. The import then registers the models and changes
fairseq (see the table in ``resmlp_mt.fairseq_plugin``). If fairseq is not loaded, it imports nothing else.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
    from resmlp_mt.translate.translator import Translator

__version__ = "0.1.0"
__all__ = ["ResMLPTransformerModel", "Translator"]


def __getattr__(name: str) -> Any:
    if name == "ResMLPTransformerModel":
        from resmlp_mt.fairseq_plugin import ResMLPTransformerModel

        return ResMLPTransformerModel
    if name == "Translator":
        from resmlp_mt.translate.translator import Translator

        return Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "fairseq" in sys.modules:
    import resmlp_mt.fairseq_plugin  # noqa: F401
