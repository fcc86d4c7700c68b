"""The paper's equations written out plainly, one sentence and one position at a time, in float64.

Touvron et al. 2021, equations 1 to 3, Algorithm 1 and "Sequence-to-sequence ResMLP", and what its tables compare with.
Shares no code with resmlp_mt: it reads a model's parameters by name, and of its options those that no parameter shows.
"""

import math

import torch


def aff(p, name, x):
    return p[f"{name}.alpha"] * x + p[f"{name}.beta"]


def linear(p, name, x):
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def norm(p, name, x):
    """Aff, or LayerNorm (Ba et al. 2016) if the parameters are those of one."""
    if f"{name}.alpha" in p:
        return aff(p, name, x)
    return p[f"{name}.weight"] * (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5) + p[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gelu_by_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": gelu,
    **dict.fromkeys(("gelu_fast", "gelu_accurate"), gelu_by_tanh),
    "tanh": torch.tanh,
    "linear": lambda x: x,
    "relu": lambda x: x.clamp(min=0),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "hardswish": lambda x: x * (x + 3).clamp(0, 6) / 6,
}


def token_mixing(p, name, x, causal, options):
    """Return z for x, T vectors: z_t = x_t + Aff( mixed_t ), where mixed_t mixes the Aff(x_s); without mixing z = x."""
    side, _, number, *_ = name.split(".")
    kinds = options[f"mixing_of_{side}_layers"].split(",")  # one for all, or one for each
    kind = kinds[int(number) if len(kinds) > 1 else 0] or options["token_mixing"]
    if kind == "none":
        return x
    own = {"heads": options["mixing_heads"]} | {key.removeprefix(f"{name}.mixing."): value for key, value in p.items()}
    mixed = EQUATIONS[kind](own, [norm(p, f"{name}.pre_affine", each) for each in x], causal)
    return [each + aff(p, f"{name}.post_affine", other) for each, other in zip(x, mixed, strict=True)]


def linear_mixing(own, x, causal):
    """sum_s (A[t,s] + r[s-t]) x_s + b[t], for each group of channels with its own A, r and b."""
    positions, length = own["weight"].shape[-1], len(x)
    matrices, biases = own["weight"].view(-1, positions, positions), own["bias"].view(own["heads"], -1)
    # once: the gradient of each indexed entry is as large as the indexed tensor
    matrices = matrices[:, :length, :length]
    heads = len(matrices)
    relative = own["relative"].view(heads, -1) if "relative" in own else torch.zeros(heads, 2 * positions)
    width = len(x[0]) // heads
    out = []
    for t in range(len(x)):
        groups = []
        for head in range(heads):
            mixed = biases[head, t].expand(width)
            for s in range(t + 1 if causal else len(x)):
                weight = matrices[head, t, s] + relative[head, s - t + positions - 1]
                mixed = mixed + weight * x[s][head * width : (head + 1) * width]
            groups.append(mixed)
        out.append(torch.cat(groups))
    return out


def gated_mixing(own, x, causal):
    """W_out ( sigmoid(W_gate x_t) * mixed_t ), where mixed is the linear mixing of the W_value x_s, and the band."""
    both = [linear(own, "value_gate", each) for each in x]
    values, gates = ([each.chunk(2)[part] for each in both] for part in (0, 1))
    mixed = linear_mixing(own, values, causal)
    if "band.predict.weight" in own:
        heads = own["heads"]
        mixed = [y + banded(linear(own, "band.predict", x[t]), values, t, heads, causal) for t, y in enumerate(mixed)]
    return [linear(own, "out_proj", y / (1 + torch.exp(-gate))) for gate, y in zip(gates, mixed, strict=True)]


def banded(weights, values, t, heads, causal):
    """sum_s w[head, s - t] v_s over the k positions before t, t itself and, unless causal, the k after it."""
    weights = weights.view(heads, -1)
    window = weights.shape[1]
    before = window - 1 if causal else window // 2
    groups = [torch.zeros_like(group) for group in values[t].chunk(heads)]
    for head in range(heads):
        for j in range(window):
            if 0 <= t + j - before < len(values):
                groups[head] = groups[head] + weights[head, j] * values[t + j - before].chunk(heads)[head]
    return torch.cat(groups)


def averages(own, x, causal):
    """The gated mixing whose A[t,s] is sum_e p_e (1 - d_e) d_e^|t-s|, with other p and d for later positions."""
    heads, length, sides = own["heads"], len(x), 1 if causal else 2
    share, decay = (own[name].view(sides, heads, -1) for name in ("share", "decay"))
    d = 1 / (1 + torch.exp(-decay))
    matrices = torch.zeros(heads, length, length, dtype=torch.double)
    for t in range(length):
        for s in range(t + 1 if causal else length):
            side = 0 if s <= t else 1
            matrices[:, t, s] = (share[side] * (1 - d[side]) * d[side] ** abs(t - s)).sum(-1)
    return gated_mixing({**own, "weight": matrices}, x, causal)


def dynamic(own, x, causal):
    """W_out ( sum_s w[head, s - t] v_s ), where v = GLU(W_in x), and w is the softmax of a prediction from v_t."""
    values = [a / (1 + torch.exp(-b)) for a, b in (linear(own, "in_proj", each).chunk(2) for each in x)]
    weights = [torch.softmax(linear(own, "band.predict", each).view(own["heads"], -1), -1) for each in values]
    mixed = (banded(each, values, t, own["heads"], causal) for t, each in enumerate(weights))
    return [linear(own, "out_proj", each) for each in mixed]


def ssru(own, x, causal):
    """ReLU(c_t), c_t = f_t c_{t-1} + (1 - f_t) v_t; unless causal plus the same from the end, by weights of its own."""
    size, sides = len(x[0]), 1 if causal else 2
    both = [linear(own, "value_forget", each).view(2, sides, size) for each in x]
    sums = [torch.zeros_like(each) for each in x]
    for side, order in enumerate([range(len(x)), reversed(range(len(x)))][:sides]):
        state = torch.zeros_like(x[0])
        for t in order:
            forget = 1 / (1 + torch.exp(-both[t][1, side]))
            state = forget * state + (1 - forget) * both[t][0, side]
            sums[t] = sums[t] + state
    return [each.clamp(min=0) for each in sums]


def softmax_mixing(own, x, causal, parts, score):
    """W_out ( sum_s softmax_s(score(head, t, s)) v_s ) for each head; v_s is the last part of W_in x_s."""
    projected = [linear(own, "in_proj", each).view(parts, own["heads"], -1) for each in x]
    out = []
    for t in range(len(x)):
        groups = []
        for head in range(own["heads"]):
            read = range(t + 1 if causal else len(x))
            weights = torch.softmax(torch.stack([score(projected, head, t, s) for s in read]), 0)
            groups.append(sum(w * projected[s][-1, head] for w, s in zip(weights, read, strict=True)))
        out.append(linear(own, "out_proj", torch.cat(groups)))
    return out


def synthesizer(own, x, causal):
    """The score, of each head, is a R[t,s] + (1 - a) (W_2 ReLU(W_1 x_t + b))[s]."""
    length = len(x)
    learned, columns = own["weight"][:, :length, :length], own["dense"][:, :, :length]
    share = 1 / (1 + torch.exp(-own["share"].view(-1)))

    def score(projected, head, t, s):
        dense = projected[t][0, head].clamp(min=0) @ columns[head, :, s]
        return share[head] * learned[head, t, s] + (1 - share[head]) * dense

    return softmax_mixing(own, x, causal, 2, score)


def attention(own, x, causal):
    """The score, of each head, is q_t k_s / sqrt(channels of a head)."""

    def score(projected, head, t, s):
        return projected[t][0, head] @ projected[s][1, head] / math.sqrt(len(projected[t][0, head]))

    return softmax_mixing(own, x, causal, 3, score)


def mlp_mixing(own, x, causal):
    """Hidden units e of position t: GELU( sum_s U[e,t,s] x_s + c[e,t] ); then sum_e,s V[e,t,s] hidden_e,s + b[t]."""
    length = len(x)
    into, out_of = (own[name][:, :length, :length] for name in ("weight_in", "weight_out"))

    def read(t):
        return range(t + 1 if causal else length)

    hidden = [
        [gelu(sum(into[e, t, s] * x[s] for s in read(t)) + own["bias_in"][e, t]) for t in range(length)]
        for e in range(len(into))
    ]
    return [
        sum(out_of[e, t, s] * hidden[e][s] for s in read(t) for e in range(len(into))) + own["bias_out"][t]
        for t in range(length)
    ]


def convolution(own, x, causal):
    """sum_k x_{t+k-before} K_k + b; K_k is a matrix, or a vector (depthwise), then a matrix may follow (separable)."""
    kernel, size = own["kernel"], len(own["kernel"])
    before = size - 1 if causal else (size - 1) // 2
    out = []
    for t in range(len(x)):
        y = own["bias"]
        for k in range(size):
            if 0 <= t + k - before < len(x):
                vector = x[t + k - before]
                y = y + (vector @ kernel[k] if kernel.dim() == 3 else vector * kernel[k])
        out.append(linear(own, "pointwise", y) if "pointwise.weight" in own else y)
    return out


EQUATIONS = {
    "none": None,
    "linear": linear_mixing,
    "gated": gated_mixing,
    "ema": averages,
    "dynamic": dynamic,
    "ssru": ssru,
    "synthesizer": synthesizer,
    "attention": attention,
    "mlp": mlp_mixing,
    **dict.fromkeys(("conv", "depthwise", "separable"), convolution),
}
"""The equation of each value of ``--token-mixing``; a mixing that is missing here is compared with no equation."""


def channel_mlp(p, name, x, options):
    out = []
    for z in x:
        hidden = ACTIVATIONS[options["activation_fn"]](linear(p, f"{name}.fc1", norm(p, f"{name}.pre_affine", z)))
        out.append(z + aff(p, f"{name}.post_affine", linear(p, f"{name}.fc2", hidden)))
    return out


def cross_attention(p, name, x, memory, options):
    """Scaled dot-product attention to the encoder's positions, head by head (Vaswani et al. 2017, equation 1)."""
    attention, heads = f"{name}.attention", options["decoder_attention_heads"]
    keys = [linear(p, f"{attention}.k_proj", m).view(heads, -1) for m in memory]
    values = [linear(p, f"{attention}.v_proj", m).view(heads, -1) for m in memory]
    out = []
    for vector in x:
        query = linear(p, f"{attention}.q_proj", norm(p, f"{name}.pre_affine", vector)).view(heads, -1)
        context = []
        for head, q in enumerate(query):
            weights = torch.softmax(torch.stack([q @ key[head] / math.sqrt(len(q)) for key in keys]), 0)
            context.append(sum(w * value[head] for w, value in zip(weights, values, strict=True)))
        out.append(vector + aff(p, f"{name}.post_affine", linear(p, f"{attention}.out_proj", torch.cat(context))))
    return out


def layers_of(p, side):
    return 1 + max(int(name.split(".")[2]) for name in p if name.startswith(f"{side}.layers."))


def sinusoidal(number, channels):
    """Vaswani et al. 2017, section 3.5, in the order of tensor2tensor and fairseq: all sines, then all cosines."""
    half = channels // 2
    angles = [number * 10000 ** (-i / (half - 1)) for i in range(half)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.double)


def embed(p, side, sentence, options):
    table, positions = p[f"{side}.embed_tokens.weight"], f"{side}.embed_positions.weight"
    scale = 1 if options.get("no_scale_embedding") else math.sqrt(table.shape[1])
    x = [scale * table[token] for token in sentence]
    if positions in p:  # numbered from 2: fairseq's first two are for padding
        return [each + p[positions][t + 2] for t, each in enumerate(x)]
    if options["token_positional_embeddings"]:
        return [each + sinusoidal(t + 2, len(each)) for t, each in enumerate(x)]
    return x


def encode(p, source, options):
    x = embed(p, "encoder", source, options)
    for i in range(layers_of(p, "encoder")):
        x = token_mixing(p, f"encoder.layers.{i}.mixing", x, False, options)
        x = channel_mlp(p, f"encoder.layers.{i}.mlp", x, options)
    return [norm(p, "encoder.layer_norm", each) for each in x]


def parameters_of(model):
    """Return a model's parameters by name: copies in float64, with gradients; shared ones stay shared."""
    copies = {}
    return {
        name: copies.setdefault(value.data_ptr(), value.detach().double().clone().requires_grad_())
        for name, value in model.state_dict().items()
    }


def translate_scores(p, source, target, options):
    """Return logits, T x V, after each token of the list ``target``, unpadded; ``p``: ``parameters_of`` a model."""
    memory = encode(p, source, options)
    x = embed(p, "decoder", target, options)
    for i in range(layers_of(p, "decoder")):
        x = token_mixing(p, f"decoder.layers.{i}.mixing", x, True, options)
        if not options.get("no_cross_attention"):
            x = cross_attention(p, f"decoder.layers.{i}.cross_attention", x, memory, options)
        x = channel_mlp(p, f"decoder.layers.{i}.mlp", x, options)
    x = [norm(p, "decoder.layer_norm", each) for each in x]
    if "decoder.project_out_dim.weight" in p:
        x = [p["decoder.project_out_dim.weight"] @ each for each in x]
    return torch.stack([p["decoder.output_projection.weight"] @ each for each in x])
