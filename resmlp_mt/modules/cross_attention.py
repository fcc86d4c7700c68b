"""fairseq's attention to the encoder, with the keys and values of a sentence kept once for all of its beams."""

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from resmlp_mt.modules.past import IncrementalState, keeps_order


def remember_beams(incremental_state: IncrementalState, sentence: Tensor) -> None:
    """Leave in a new state how many rows in a row belong to one sentence, if that is the same for all.

    Args:
        sentence: B, which sentence each row is of
    """
    if "beams" not in incremental_state:
        beams = int((sentence == sentence[0]).sum())
        if sentence.numel() % beams == 0:
            groups = sentence.view(-1, beams)
            if bool((groups == groups[:, :1]).all()):
                remembered: dict[str, Tensor | None] = {"of_a_sentence": torch.tensor(beams)}
                incremental_state["beams"] = remembered


def remembered_beams(incremental_state: IncrementalState | None) -> Tensor:
    """What ``remember_beams`` left there, or 1."""
    if incremental_state is not None and "beams" in incremental_state:
        beams = incremental_state["beams"]["of_a_sentence"]
        if beams is not None:
            return beams
    return torch.tensor(1)


class CrossAttention(MultiheadAttention):
    """Multi-head attention of target positions to source positions (Vaswani et al. 2017, section 3.2.2).

    fairseq's weights and their initialisation. Step by step, fairseq projects and keeps the source of every beam; the
    beams of a sentence share it here, and one product attends for all of them.
    """

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        padding: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """``T x B x C, S x B x C' -> T x B x C`` and, if needed, the weights of each head, H x B x T x S.

        Args:
            padding: B x S, true at padded positions of the source
            incremental_state: keeps keys and values from the first step on
        """
        steps, rows, _ = x.shape
        heads, width = self.num_heads, self.head_dim
        keys, values, mask = self.source(encoder_out, padding, incremental_state)
        sentences = keys.size(0) // heads
        beams = rows // sentences
        queries = self.q_proj(x).view(steps, sentences, beams, heads, width).permute(1, 3, 2, 0, 4)
        queries = queries.reshape(sentences * heads, beams * steps, width)
        if mask is None:
            scores = torch.bmm(queries * self.scaling, keys.transpose(1, 2))
        else:
            scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=self.scaling)
        weights = torch.softmax(scores, -1, dtype=torch.float32).type_as(scores)
        y = torch.bmm(self.dropout_module(weights), values)
        y = y.view(sentences, heads, beams, steps, width).permute(3, 0, 2, 1, 4).reshape(steps, rows, heads * width)
        if not need_weights:
            return self.out_proj(y), None
        weights = weights.view(sentences, heads, beams, steps, -1).transpose(0, 1).reshape(heads, rows, steps, -1)
        return self.out_proj(y), weights

    def source(
        self, encoder_out: Tensor, padding: Tensor | None, incremental_state: IncrementalState | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values, BH x S x D, and what is added to scores, BH x 1 x S; one B for all beams of a sentence."""
        saved = self.get_incremental_state(incremental_state, "source")
        if saved is not None:
            keys, values = saved["keys"], saved["values"]
            assert keys is not None and values is not None
            return keys, values, saved["mask"]
        beams = remembered_beams(incremental_state)
        of_a_sentence = int(beams)
        if of_a_sentence > 1:
            encoder_out = encoder_out[:, ::of_a_sentence]
            padding = None if padding is None else padding[::of_a_sentence]
        keys, values = self._by_head(self.k_proj(encoder_out)), self._by_head(self.v_proj(encoder_out))
        mask: Tensor | None = None
        if padding is not None:
            mask = torch.zeros(padding.shape, dtype=keys.dtype, device=keys.device)
            mask = mask.masked_fill(padding, float("-inf")).repeat_interleave(self.num_heads, 0).unsqueeze(1)
        if incremental_state is not None:
            keys, values = keys.contiguous(), values.contiguous()
            new: dict[str, Tensor | None] = {"keys": keys, "values": values, "mask": mask, "beams": beams}
            self.set_incremental_state(incremental_state, "source", new)
        return keys, values, mask

    def _by_head(self, x: Tensor) -> Tensor:
        """``S x B x C -> BH x S x D``"""
        return x.reshape(x.size(0), x.size(1) * self.num_heads, self.head_dim).transpose(0, 1)

    @torch.jit.export
    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Give each beam the source of the beam that it continues; ``new_order`` (B') indexes the batch."""
        saved = self.get_incremental_state(incremental_state, "source")
        if saved is None:
            return
        beams, sentences = saved["beams"], saved["keys"]
        assert beams is not None and sentences is not None
        of_a_sentence, count = int(beams), sentences.size(0) // self.num_heads
        chosen = new_order // of_a_sentence
        if of_a_sentence > 1:
            groups = chosen.view(-1, of_a_sentence) if chosen.numel() % of_a_sentence == 0 else chosen.unsqueeze(0)
            if bool((groups == groups[:, :1]).all()):
                chosen = groups[:, 0]
            else:  # no search of fairseq's parts the beams of a sentence; others may
                saved["beams"] = torch.ones_like(beams)
        if not keeps_order(chosen, count):
            for name in ("keys", "values", "mask"):
                tensor = saved[name]
                if tensor is not None:
                    by_sentence = tensor.view(count, -1, tensor.size(1), tensor.size(2)).index_select(0, chosen)
                    saved[name] = by_sentence.view(-1, tensor.size(1), tensor.size(2))
