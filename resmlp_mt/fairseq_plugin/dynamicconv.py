"""fairseq's DynamicConv (Wu et al. 2019, https://arxiv.org/abs/1901.10430), with the same kernels in every batch.

The convolution that fairseq's ``lightconv`` uses today cuts a decoder's predicted kernel to the length of the batch
before its softmax, but not in generation: where a batch is shorter than the kernel, a model trains with other weights
than it translates with. fairseq's ``DynamicConv1dTBC`` computes the softmax first. It is also faster.
"""

from argparse import Namespace
from typing import Any

from fairseq.models import register_model, register_model_architecture
from fairseq.models.lightconv import LightConvModel, base_architecture
from fairseq.modules.dynamic_convolution import DynamicConv1dTBC, DynamicConv_scripatable


@register_model("dynamicconv")
class DynamicConvModel(LightConvModel):
    """``lightconv`` with another class for its dynamic convolutions; all options are those of ``lightconv``."""

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LightConvModel:
        model = super().build_model(args, task)
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            if isinstance(layer.conv, DynamicConv_scripatable):
                layer.conv = DynamicConv1dTBC(
                    layer.conv.input_size,
                    layer.conv.kernel_size,
                    padding_l=layer.conv.padding_l,
                    num_heads=layer.conv.num_heads,
                    weight_dropout=layer.conv.weight_dropout_module.p,
                    weight_softmax=layer.conv.weight_softmax,
                )
        return model


register_model_architecture("dynamicconv", "dynamicconv")(base_architecture)
