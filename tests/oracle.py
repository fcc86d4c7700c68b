"""The paper's equations written out plainly, one sentence and one position at a time, in float64.

Touvron et al. 2021, equations 1 to 3, Algorithm 1 and "Sequence-to-sequence ResMLP". Shares no code with resmlp_mt: it
reads a model's parameters by name and nothing else.
"""

import math

import torch


def aff(p, name, x):
    return p[f"{name}.alpha"] * x + p[f"{name}.beta"]


def linear(p, name, x):
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def token_mixing(p, name, x, causal):
    """x: T vectors. z_t = x_t + Aff( sum_s A[t,s] Aff(x_s) + b[t] )."""
    matrix, bias = p[f"{name}.mixing.weight"], p[f"{name}.mixing.bias"]
    out = []
    for t in range(len(x)):
        mixed = torch.zeros_like(x[t])
        for s in range(t + 1 if causal else len(x)):
            mixed = mixed + matrix[t, s] * aff(p, f"{name}.pre_affine", x[s])
        out.append(x[t] + aff(p, f"{name}.post_affine", mixed + bias[t]))
    return out


def channel_mlp(p, name, x):
    out = []
    for z in x:
        hidden = gelu(linear(p, f"{name}.fc1", aff(p, f"{name}.pre_affine", z)))
        out.append(z + aff(p, f"{name}.post_affine", linear(p, f"{name}.fc2", hidden)))
    return out


def cross_attention(p, name, x, memory, heads):
    """Scaled dot-product attention to the encoder's positions, head by head (Vaswani et al. 2017, equation 1)."""
    attention = f"{name}.attention"
    keys = [linear(p, f"{attention}.k_proj", m) for m in memory]
    values = [linear(p, f"{attention}.v_proj", m) for m in memory]
    out = []
    for vector in x:
        query = linear(p, f"{attention}.q_proj", aff(p, f"{name}.pre_affine", vector))
        width = len(query) // heads
        context = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = torch.stack([query[part] @ key[part] / math.sqrt(width) for key in keys])
            weights = torch.softmax(scores, 0)
            context.append(sum(w * value[part] for w, value in zip(weights, values, strict=True)))
        out.append(vector + aff(p, f"{name}.post_affine", linear(p, f"{attention}.out_proj", torch.cat(context))))
    return out


def layers_of(p, side):
    return 1 + max(int(name.split(".")[2]) for name in p if name.startswith(f"{side}.layers."))


def embed(p, side, sentence):
    table = p[f"{side}.embed_tokens.weight"]
    return [math.sqrt(table.shape[1]) * table[token] for token in sentence]


def encode(p, source):
    x = embed(p, "encoder", source)
    for i in range(layers_of(p, "encoder")):
        x = token_mixing(p, f"encoder.layers.{i}.mixing", x, causal=False)
        x = channel_mlp(p, f"encoder.layers.{i}.mlp", x)
    return [aff(p, "encoder.layer_norm", each) for each in x]


def translate_scores(model, source, target, heads):
    """Logits (T x V) of the target tokens after ``target``, a list of tokens, for one sentence without padding."""
    p = {name: value.double() for name, value in model.state_dict().items()}
    memory = encode(p, source)
    x = embed(p, "decoder", target)
    for i in range(layers_of(p, "decoder")):
        x = token_mixing(p, f"decoder.layers.{i}.mixing", x, causal=True)
        x = cross_attention(p, f"decoder.layers.{i}.cross_attention", x, memory, heads)
        x = channel_mlp(p, f"decoder.layers.{i}.mlp", x)
    return torch.stack([p["decoder.output_projection.weight"] @ aff(p, "decoder.layer_norm", each) for each in x])
