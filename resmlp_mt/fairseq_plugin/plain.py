"""A model of fairseq's as the same model in pure PyTorch."""

from fairseq.models.transformer import TransformerConfig

from resmlp_mt.fairseq_plugin.layers import layer_config
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel
from resmlp_mt.nn.encoder_decoder import EncoderDecoder, ModelConfig

ADAPTIVE = "decoder.adaptive_softmax."


def plain_config(model: ResMLPTransformerModel) -> ModelConfig:
    """The sizes and kinds of a model."""
    cfg: TransformerConfig = model.cfg
    positions = {
        side: "none" if cfg.no_token_positional_embeddings else "learned" if options.learned_pos else "sinusoidal"
        for side, options in {"encoder": cfg.encoder, "decoder": cfg.decoder}.items()
    }
    adaptive = model.decoder.adaptive_softmax
    return ModelConfig(
        source_symbols=model.encoder.embed_tokens.num_embeddings,
        target_symbols=len(model.decoder.dictionary),
        encoder=layer_config(cfg, causal=False),
        decoder=layer_config(cfg, causal=True, attention=not cfg.no_cross_attention),
        encoder_layers=len(model.encoder.layers),
        decoder_layers=len(model.decoder.layers),
        decoder_input_dim=model.decoder.embed_tokens.embedding_dim,
        decoder_output_dim=model.decoder.output_embed_dim,
        pad=model.decoder.padding_idx,
        scale_embeddings=not cfg.no_scale_embedding,
        share_all_embeddings=cfg.share_all_embeddings,
        share_output_embeddings=cfg.share_decoder_input_output_embed,
        encoder_positions=positions["encoder"],
        decoder_positions=positions["decoder"],
        adaptive_cutoffs=() if adaptive is None else tuple(adaptive.cutoff[:-1]),
        adaptive_factor=cfg.adaptive_softmax_factor,
    )


def plain(model: ResMLPTransformerModel) -> EncoderDecoder:
    """The same model, with parameters of its own, in evaluation mode.

    Args:
        model: not folded
    """
    result = EncoderDecoder(plain_config(model)).to(next(model.parameters()).dtype)
    state = {}
    for name, tensor in model.state_dict().items():
        if name.startswith(ADAPTIVE):  # PyTorch's class has no dropout between the two layers of a cluster
            name = ADAPTIVE + name.removeprefix(ADAPTIVE).replace(".2.", ".1.")
        state[name] = tensor
    expected = result.state_dict()
    result.load_state_dict({name: tensor for name, tensor in state.items() if name in expected})
    return result.eval()
