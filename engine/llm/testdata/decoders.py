#!/usr/bin/env python3
"""Tiny random language models and their logits in doubles, from the definitions.

    decoders.py FOLDER

writes of each architecture NAME.gguf, the logits of tokens.txt (NAME.logits, float32, [tokens][vocabulary]) and tokens.txt; and of those with
states the logits of the last rows of long.txt (NAME.long), of those with an MTP head its logits (NAME.mtp). The
definitions are those of the models' own code and of GGUF's converters, written down here once more in numpy: nothing of it
is the engine's. Sizes are such that accidents show: key-value heads are fewer than heads, three layers, vocabulary and
widths are no powers of two; and such that llama.cpp loads the files, whose logits bench/peers/llamacpp.py writes beside these.
Needs numpy and gguf.
"""
import sys, pathlib
import numpy as np
import gguf

VOCAB, TOKENS, LAYERS = 60, 70, 3
LONG, LAST = 4096, 16  # tokens of long.txt, and how many of the last rows' logits are kept
EPS = np.float64(np.float32(1e-5))


def f32(x):  # as a file holds it
    return np.float64(np.float32(x))


class Model:
    def __init__(self, arch, name, seed, width=24, heads=3, kv=1, dim=None, ffn=40, context=128, layer_norm=False, layers=LAYERS):
        self.random, self.tensors, self.name = np.random.default_rng(seed), {}, name
        self.width, self.heads, self.kv, self.dim, self.ffn = width, heads, kv, dim or width // heads, ffn
        self.file = f = gguf.GGUFWriter(str(folder / name) + ".gguf", arch)
        f.add_block_count(layers)
        f.add_tokenizer_model("no_vocab")
        f.add_vocab_size(VOCAB)
        f.add_context_length(context)
        f.add_embedding_length(width)
        f.add_feed_forward_length(ffn)
        f.add_head_count(heads)
        f.add_head_count_kv(kv)
        if dim:
            f.add_key_length(dim)
            f.add_value_length(dim)
        f.add_layer_norm_eps(EPS) if layer_norm else f.add_layer_norm_rms_eps(EPS)
        self.embedding = self.tensor("token_embd.weight", VOCAB, width, spread=1)

    def tensor(self, name, *shape, mean=0.0, spread=None):
        """A tensor of the file, made when it is first asked for."""
        if name not in self.tensors:
            spread = 1.5 / np.sqrt(shape[-1]) if spread is None else spread
            v = (mean + spread * self.random.standard_normal(shape)).astype(np.float32)
            self.file.add_tensor(name, v)
            self.tensors[name] = v.astype(np.float64)
        return self.tensors[name]

    def times(self, name, x, rows, bias=False):
        y = x @ self.tensor(name + ".weight", rows, x.shape[-1]).T
        return y + self.tensor(name + ".bias", rows, spread=0.3) if bias else y

    def rms(self, name, x, mean=1):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * self.tensor(name + ".weight", x.shape[-1], mean=mean, spread=0.2)

    def layer_norm(self, name, x, bias=True):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
        n = x.shape[-1]
        x = x * self.tensor(name + ".weight", n, mean=1, spread=0.2)
        return x + self.tensor(name + ".bias", n, spread=0.2) if bias else x

    def split(self, x, heads):  # [heads][tokens][dim]
        return x.reshape(len(x), heads, -1).transpose(1, 0, 2)

    def fused_qkv(self, at, x):
        q, k = self.heads * self.dim, self.kv * self.dim
        return np.split(self.times(at + "attn_qkv", x, q + 2 * k), [q, q + k], axis=-1)

    def qkv(self, at, x, bias=False):
        return [self.times(at + "attn_" + n, x, h * self.dim, bias) for n, h in (("q", self.heads), ("k", self.kv), ("v", self.kv))]

    def attend(self, q, k, v, scale=None, window=TOKENS):
        """Causal attention of heads of queries, whose neighbours share a head of keys and values, to the last window tokens: [tokens][heads*dim]."""
        n, group = q.shape[1], self.heads // self.kv
        k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
        s = q @ k.transpose(0, 2, 1) * (1 / np.sqrt(self.dim) if scale is None else scale)
        far = np.arange(n)[:, None] - np.arange(n)[None, :]
        s = np.where((far >= 0) & (far < window), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)

    def gated(self, at, x, act):
        return self.times(at + "ffn_down", act(self.times(at + "ffn_gate", x, self.ffn)) * self.times(at + "ffn_up", x, self.ffn), self.width)

    def experts(self, at, x, count=7, use=3, width=20, gate=None, divided=True, scale=1.0, preferred=False, groups=None, shared=0, gated=False,
                act=None, latent=0):
        """A mixture of experts: rows pass through the best, and all through the shared one; scores become probabilities by gate, which is
        softmax where there is none. Groups are (count, used): the ones whose best two are largest in sum. With act there are no gates, and
        with latent experts get and give rows of that width."""
        p = self.times(at + "ffn_gate_inp", x, count)
        p = gate(p) if gate else np.exp(p - p.max(-1, keepdims=True)) / np.exp(p - p.max(-1, keepdims=True)).sum(-1, keepdims=True)
        key = p + (self.tensor(at + "exp_probs_b.bias", count, spread=0.2) if preferred else 0)
        if groups:
            size = count // groups[0]
            parts = key.reshape(len(x), groups[0], size)
            best = np.sort(parts, -1)[..., -2:].sum(-1)
            kept = np.argsort(-best, -1)[:, : groups[1]]
            mask = np.full_like(parts, -np.inf)
            for t, row in enumerate(kept):
                mask[t, row] = 0
            key = (parts + mask).reshape(len(x), count)
        rows = self.times(at + "ffn_latent_down", x, latent) if latent else x
        gates, ups = (None if act and n == "gate" else self.tensor(f"{at}ffn_{n}_exps.weight", count, width, latent or self.width, spread=0.3) for n in ("gate", "up"))
        downs = self.tensor(at + "ffn_down_exps.weight", count, latent or self.width, width, spread=0.3)
        y = np.zeros_like(rows)
        for t, row in enumerate(rows):
            chosen = np.argsort(-key[t])[:use]
            share = p[t, chosen] / (p[t, chosen].sum() if divided else 1) * scale
            y[t] = sum(w * (downs[e] @ (act(ups[e] @ row) if act else silu(gates[e] @ row) * (ups[e] @ row))) for e, w in zip(chosen, share))
        if latent:
            y = self.times(at + "ffn_latent_up", y, self.width)
        if shared:
            gate = None if act else self.times(at + "ffn_gate_shexp", x, shared)
            up = self.times(at + "ffn_up_shexp", x, shared)
            inner = act(up) if act else silu(gate) * up
            by = 1 / (1 + np.exp(-(x @ self.tensor(at + "ffn_gate_inp_shexp.weight", self.width)))) if gated else np.ones(len(x))
            y = y + by[:, None] * self.times(at + "ffn_down_shexp", inner, self.width)
        return y

    def fused_gated(self, at, x, act):
        gate, up = np.split(self.times(at + "ffn_up", x, 2 * self.ffn), 2, axis=-1)
        return self.times(at + "ffn_down", act(gate) * up, self.width)

    def logits(self, x, tied=False):
        return x @ (self.embedding if tied else self.tensor("output.weight", VOCAB, self.width)).T

    def save(self, logits):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()
        self.keep("logits", logits)

    def keep(self, suffix, logits):
        logits.astype("<f4").tofile(f"{folder / self.name}.{suffix}")


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):  # the tanh form, as in GGUF's runtimes
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def halves(x, base=1e4, dims=None, factors=1.0, magnitude=1.0):
    """Rotates element i of a head with element i + dims/2 of its first dims (NeoX); x is [heads][tokens][dim]."""
    dims = dims or x.shape[-1]
    h = dims // 2
    angle = np.arange(x.shape[1])[:, None] * (base ** (-2 * np.arange(h) / dims) / factors)[None, :]
    cos, sin, a, b = np.cos(angle) * magnitude, np.sin(angle) * magnitude, x[..., :h], x[..., h:dims]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., dims:]], -1)


def yarn(x, factor, original, base=1e4, fast=32, slow=1):
    """Peng et al. 2023: pairs that turn less than once within the original context are slowed by factor, those that turn often are left."""
    dims = x.shape[-1]
    pair = lambda turns: dims * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))
    lo, hi = max(0, np.floor(pair(fast))), min(dims - 1, np.ceil(pair(slow)))
    ramp = np.clip((np.arange(dims // 2) - lo) / max(0.001, hi - lo), 0, 1)
    return halves(x, base, factors=1 / (ramp / factor + 1 - ramp), magnitude=1 + 0.1 * np.log(factor))


def neighbours(x, base=1e4, dims=None):
    """Rotates elements 2i and 2i+1 of the first dims of a head."""
    dims = dims or x.shape[-1]
    angle = np.arange(x.shape[1])[:, None] * (base ** (-2 * np.arange(dims // 2) / dims))[None, :]
    y = x.copy()
    a, b = x[..., 0:dims:2], x[..., 1:dims:2]
    y[..., 0:dims:2], y[..., 1:dims:2] = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return y


def phi3(name, window=TOKENS):
    """Phi-4-mini: three quarters of a head rotate, by factors for texts beyond 80 tokens, or others where no text is longer."""
    m = Model("phi3", name, 21, width=24, heads=3, kv=1)
    original, context, dims = 80, 128, 6
    magnitude = f32(np.sqrt(1 + np.log(context / original) / np.log(original)))
    m.file.add_rope_dimension_count(dims)
    m.file.add_rope_scaling_orig_ctx_len(original)
    m.file.add_rope_scaling_attn_factors(magnitude)
    if window < TOKENS:
        m.file.add_sliding_window(window)
    short = m.tensor("rope_factors_short.weight", dims // 2, mean=1.2, spread=0.1)
    long = m.tensor("rope_factors_long.weight", dims // 2, mean=4, spread=1)

    def run(factors):
        x = m.embedding[tokens]
        for i in range(LAYERS):
            at = f"blk.{i}."
            q, k, v = m.fused_qkv(at, m.rms(at + "attn_norm", x))
            turn = lambda y: halves(y, dims=dims, factors=factors, magnitude=magnitude)
            a = m.attend(turn(m.split(q, m.heads)), turn(m.split(k, m.kv)), m.split(v, m.kv), window=window)
            x = x + m.times(at + "attn_output", a, m.width)
            x = x + m.fused_gated(at, m.rms(at + "ffn_norm", x), silu)
        return m.logits(m.rms("output_norm", x), tied=True)

    m.save(run(long))
    if window < TOKENS:
        m.keep("short", run(short))


def granite(positions):
    """Factors on embeddings, branches, scores and logits; biases behind the branches; without positions in the second model."""
    m = Model("granite", "granite" if positions else "granite-nope", 22, width=32, heads=4, kv=2)
    scales = embedding, residual, attention, logit = f32(3.5), f32(0.22), f32(0.2), f32(1.7)
    m.file.add_embedding_scale(embedding)
    m.file.add_residual_scale(residual)
    m.file.add_attention_scale(attention)
    m.file.add_logit_scale(logit)
    if not positions:
        m.file.add_rope_scaling_finetuned(False)
    x = m.embedding[tokens] * embedding
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x))
        turn = neighbours if positions else (lambda y: y)
        a = m.attend(turn(m.split(q, m.heads)), turn(m.split(k, m.kv)), m.split(v, m.kv), attention)
        x = x + residual * m.times(at + "attn_output", a, m.width, bias=not positions)
        x = x + residual * m.gated(at, m.rms(at + "ffn_norm", x), silu)
    m.save(m.logits(m.rms("output_norm", x), tied=True) / logit)


def gemma():
    m = Model("gemma", "gemma", 23, width=24, heads=4, kv=1, dim=10)
    x = m.embedding[tokens] * np.sqrt(24)
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x))
        x = x + m.times(at + "attn_output", m.attend(halves(m.split(q, m.heads)), halves(m.split(k, m.kv)), m.split(v, m.kv)), m.width)
        x = x + m.gated(at, m.rms(at + "ffn_norm", x), gelu)
    m.save(m.logits(m.rms("output_norm", x), tied=True))


def gemma3():
    """Five of six layers see a window and rotate by a base of their own; the rotation of the sixth is stretched, as from 4B on."""
    layers, window, base = 7, 20, f32(1e6)
    m = Model("gemma3", "gemma3", 42, width=24, heads=4, kv=1, dim=10, layers=layers)
    m.file.add_sliding_window(window)
    m.file.add_rope_freq_base(base)
    m.file.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    m.file.add_rope_scaling_factor(8.0)
    x = m.embedding[tokens] * np.sqrt(24)
    for i in range(layers):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x))
        q, k = m.rms(at + "attn_q_norm", m.split(q, m.heads)), m.rms(at + "attn_k_norm", m.split(k, m.kv))
        turn, far = (halves, window) if (i + 1) % 6 else (lambda y: halves(y, base, factors=8), TOKENS)
        a = m.attend(turn(q), turn(k), m.split(v, m.kv), window=far)
        x = x + m.rms(at + "post_attention_norm", m.times(at + "attn_output", a, m.width))
        x = x + m.rms(at + "post_ffw_norm", m.gated(at, m.rms(at + "ffn_norm", x), gelu))
    m.save(m.logits(m.rms("output_norm", x), tied=True))


def qwen(arch, seed, sections):
    """The language models of Qwen2-VL and Qwen3-VL: pairs turn by one of three positions, which texts have all alike."""
    m = Model(arch, arch, seed, width=24, heads=3, kv=1, dim=None if arch == "qwen2vl" else 12)
    m.file.add_rope_dimension_sections(sections)
    if arch == "qwen3vl":
        m.file.add_num_deepstack_layers(2)
    m.file.add_rope_freq_base(5e6)
    x, base = m.embedding[tokens], f32(5e6)
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x), bias=arch == "qwen2vl")
        q, k, v = m.split(q, m.heads), m.split(k, m.kv), m.split(v, m.kv)
        if arch == "qwen3vl":
            q, k = m.rms(at + "attn_q_norm", q), m.rms(at + "attn_k_norm", k)
        x = x + m.times(at + "attn_output", m.attend(halves(q, base), halves(k, base), v), m.width)
        x = x + m.gated(at, m.rms(at + "ffn_norm", x), silu)
    m.save(m.logits(m.rms("output_norm", x)))


def behind(arch, name, seed, whole, window=None, layers=LAYERS, **sizes):
    """OLMo 2 norms queries and keys as a whole, EXAONE 4 each head; both norm what a branch gives, and not what it gets.
    With a window in all layers but every fourth from the second on, OLMo 3 stretches only the rotation of these (YaRN), and EXAONE 4 32B,
    the only one of 64 layers, rotates only the others."""
    m = Model(arch, name, seed, layers=layers, **(sizes or {"width": 24, "heads": 6, "kv": 2}))
    near, branch = [i % 4 != 1 for i in range(layers)], LAYERS / layers  # else rounding grows over many layers
    if window:
        m.file.add_sliding_window(window)
        m.file.add_sliding_window_pattern(near)
    if window and whole:
        m.file.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        m.file.add_rope_scaling_factor(4.0)
        m.file.add_rope_scaling_orig_ctx_len(32)
    x = m.embedding[tokens]
    for i in range(layers):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, x)
        if whole:
            q, k = m.split(m.rms(at + "attn_q_norm", q), m.heads), m.split(m.rms(at + "attn_k_norm", k), m.kv)
        else:
            q, k = m.rms(at + "attn_q_norm", m.split(q, m.heads)), m.rms(at + "attn_k_norm", m.split(k, m.kv))
        turn, far = halves, window or TOKENS
        if window and not near[i]:
            turn, far = (lambda y: yarn(y, 4.0, 32)) if whole else (lambda y: y), TOKENS
        a = m.attend(turn(q), turn(k), m.split(v, m.kv), window=far)
        x = x + m.rms(at + "post_attention_norm", m.times(at + "attn_output", a, m.width), branch)
        x = x + m.rms(at + "post_ffw_norm", m.gated(at, x, silu), branch)
    m.save(m.logits(m.rms("output_norm", x)))


def apertus():
    """xIELU, whose parameters are kept before their softplus: alpha_p x^2 + beta x, and alpha_n (e^min(x, eps) - 1 - x) + beta x below zero."""
    m = Model("apertus", "apertus", 28, width=24, heads=6, kv=2)
    r = np.random.default_rng(29)
    draw = lambda mean: [float(np.float32(v)) for v in mean + 0.3 * r.standard_normal(LAYERS)]
    alpha_p, alpha_n, beta, eps = draw(0.2), draw(0.1), draw(0.5), [float(np.float32(v)) for v in (-1e-6, -0.3, -1e-6)]
    m.file.add_xielu_alpha_p(alpha_p)
    m.file.add_xielu_alpha_n(alpha_n)
    m.file.add_xielu_beta(beta)
    m.file.add_xielu_eps(eps)

    def xielu(x, i):
        above = np.log1p(np.exp(alpha_p[i])) * x * x
        below = (beta[i] + np.log1p(np.exp(alpha_n[i]))) * (np.expm1(np.minimum(x, eps[i])) - x)
        return np.where(x > 0, above, below) + beta[i] * x

    x = m.embedding[tokens]
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x))
        q, k = m.rms(at + "attn_q_norm", m.split(q, m.heads)), m.rms(at + "attn_k_norm", m.split(k, m.kv))
        x = x + m.times(at + "attn_output", m.attend(halves(q), halves(k), m.split(v, m.kv)), m.width)
        x = x + m.times(at + "ffn_down", xielu(m.times(at + "ffn_up", m.rms(at + "ffn_norm", x), m.ffn), i), m.width)
    m.save(m.logits(m.rms("output_norm", x)))


def glm4():
    m = Model("glm4", "glm4", 30, width=24, heads=3, kv=1, dim=12)
    m.file.add_rope_dimension_count(6)
    x = m.embedding[tokens]
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x), bias=True)
        a = m.attend(neighbours(m.split(q, m.heads), dims=6), neighbours(m.split(k, m.kv), dims=6), m.split(v, m.kv))
        x = x + m.rms(at + "post_attention_norm", m.times(at + "attn_output", a, m.width))
        x = x + m.rms(at + "post_ffw_norm", m.fused_gated(at, m.rms(at + "ffn_norm", x), silu))
    m.save(m.logits(m.rms("output_norm", x)))


def plain(arch, seed, turn, bias=False, dim=None, norm="ffn_norm", late=False, tied=False):
    """Llama under other names; of Hunyuan heads are normed after rotation."""
    m = Model(arch, arch, seed, width=24, heads=6, kv=2, dim=dim)
    x = m.embedding[tokens]
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.rms(at + "attn_norm", x), bias)
        q, k = turn(m.split(q, m.heads)), turn(m.split(k, m.kv))
        if late:
            q, k = m.rms(at + "attn_q_norm", q), m.rms(at + "attn_k_norm", k)
        x = x + m.times(at + "attn_output", m.attend(q, k, m.split(v, m.kv)), m.width)
        y = m.rms(at + norm, x)
        if arch == "arcee":  # the square of what is positive, without a gate
            x = x + m.times(at + "ffn_down", np.maximum(m.times(at + "ffn_up", y, m.ffn), 0) ** 2, m.width)
        else:
            x = x + m.gated(at, y, silu)
    m.save(m.logits(m.rms("output_norm", x), tied))


def by_mean(arch, name, seed, dims, biases, window=TOKENS):
    """StarCoder 2 (biases everywhere, no gate) and StableLM 2 (a part of a head rotates): layer norms."""
    m = Model(arch, name, seed, width=24, heads=3, kv=1, layer_norm=True)
    m.file.add_rope_dimension_count(dims)
    if window < TOKENS:
        m.file.add_sliding_window(window)
    x = m.embedding[tokens]
    for i in range(LAYERS):
        at = f"blk.{i}."
        q, k, v = m.qkv(at, m.layer_norm(at + "attn_norm", x), bias=True)
        a = m.attend(halves(m.split(q, m.heads), dims=dims), halves(m.split(k, m.kv), dims=dims), m.split(v, m.kv), window=window)
        x = x + m.times(at + "attn_output", a, m.width, biases)
        y = m.layer_norm(at + "ffn_norm", x)
        if biases:
            x = x + m.times(at + "ffn_down", gelu(m.times(at + "ffn_up", y, m.ffn, True)), m.width, True)
        else:
            x = x + m.gated(at, y, silu)
    m.save(m.logits(m.layer_norm("output_norm", x)))


def cohere(arch, seed, window):
    """Attention and network side by side behind one norm without a bias; with a window in all layers but the second, which is not rotated."""
    m = Model(arch, arch, seed, width=32, heads=4, kv=2, layer_norm=True)
    scale = f32(0.0625)
    m.file.add_logit_scale(scale)
    m.file.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if window:
        m.file.add_sliding_window(window)
        m.file.add_sliding_window_pattern([i != 1 for i in range(LAYERS)])
    x = m.embedding[tokens]
    for i in range(LAYERS):
        at = f"blk.{i}."
        y = m.layer_norm(at + "attn_norm", x, bias=False)
        q, k, v = m.qkv(at, y)
        near = not window or i != 1
        turn = neighbours if near else (lambda y: y)
        a = m.attend(turn(m.split(q, m.heads)), turn(m.split(k, m.kv)), m.split(v, m.kv), window=window if window and near else TOKENS)
        x = x + m.times(at + "attn_output", a, m.width) + m.gated(at, y, silu)
    m.save(scale * m.logits(m.layer_norm("output_norm", x, bias=False), tied=True))


def glm_mtp(seed, own):
    """GLM-4.5 with a head: attention with biases and normed heads, of which a part rotates, and experts."""
    m = Model("glm4moe", "glm4moe-mtp", seed, width=24, heads=6, kv=2, dim=12, ffn=40, layers=3)
    f = m.file
    f.add_expert_count(7)
    f.add_expert_used_count(3)
    f.add_expert_feed_forward_length(20)
    f.add_leading_dense_block_count(1)
    f.add_expert_shared_count(2)
    f.add_expert_weights_scale(1.5)
    f.add_expert_weights_norm(True)
    f.add_rope_dimension_count(6)
    f.add_nextn_predict_layers(1)
    def layer(at, x, dense=False):
        y = m.rms(at + "attn_norm", x)
        q, k, v = (m.split(a, n) for a, n in zip(m.qkv(at, y, bias=True), (6, 2, 2)))
        q, k = m.rms(at + "attn_q_norm", q), m.rms(at + "attn_k_norm", k)
        x = x + m.times(at + "attn_output", m.attend(halves(q, dims=6), halves(k, dims=6), v), m.width)
        y = m.rms(at + "post_attention_norm", x)
        return x + (m.gated(at, y, silu) if dense else m.experts(at, y, shared=40, preferred=True, gate=sigmoid, scale=1.5))
    x = layer("blk.1.", layer("blk.0.", m.embedding[tokens], dense=True))
    hidden = m.rms("output_norm", x)
    logits = m.logits(hidden)
    m.keep("mtp", head(m, "blk.2.", hidden, layer, own))
    m.save(logits)


def mixture(arch, seed, turn=halves, bias=False, heads=False, whole=False, late=False, dense=0, step=1, norm="ffn_norm", factors=None, drafts=0,
            fused=False, kv=2, dim=None, keys=(), dims=None, **experts):
    """Decoders whose networks are mixtures of experts, except for the first ones (dense) or all but every step-th."""
    m = Model(arch, arch if arch != "llama" else "mixtral", seed, width=24, heads=6, kv=kv, dim=dim, ffn=20 if not dense and step == 1 else 40, layers=LAYERS + drafts)
    m.file.add_expert_count(experts.get("count", 7))
    m.file.add_expert_used_count(experts.get("use", 3))
    for key, value in keys:
        getattr(m.file, key)(value)
    if dims:
        m.file.add_rope_dimension_count(dims)
    embedding, residual, attention, logit = factors or (1, 1, None, 1)
    x = m.embedding[tokens] * embedding
    for i in range(LAYERS):
        at = f"blk.{i}."
        y = m.rms(at + "attn_norm", x)
        q, k, v = m.fused_qkv(at, y) if fused else m.qkv(at, y, bias)
        if whole:
            q, k = m.rms(at + "attn_q_norm", q), m.rms(at + "attn_k_norm", k)
        q, k = m.split(q, m.heads), m.split(k, m.kv)
        if heads and not late:
            q, k = m.rms(at + "attn_q_norm", q), m.rms(at + "attn_k_norm", k)
        q, k = turn(q), turn(k)
        if late:
            q, k = m.rms(at + "attn_q_norm", q), m.rms(at + "attn_k_norm", k)
        x = x + residual * m.times(at + "attn_output", m.attend(q, k, m.split(v, m.kv), attention), m.width)
        y = m.rms(at + norm, x)
        x = x + residual * (m.gated(at, y, silu) if i < dense or (i + 1) % step else m.experts(at, y, **experts))
    logits = m.logits(m.rms("output_norm", x)) / logit
    for i in range(LAYERS, LAYERS + drafts):  # a layer that drafts tokens, which is no part of the model
        at = f"blk.{i}."
        m.qkv(at, x, bias)
        for name in ["attn_norm", norm, "nextn.enorm", "nextn.hnorm", *(("attn_q_norm", "attn_k_norm") if heads else ())]:
            m.tensor(at + name + ".weight", m.dim if name.endswith(("q_norm", "k_norm")) else m.width)
        m.tensor(at + "attn_output.weight", m.width, m.heads * m.dim)
        m.tensor(at + "nextn.eh_proj.weight", m.width, 2 * m.width)
        m.experts(at, x[:1], **experts)
    m.save(logits)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def squared_relu(x):
    return np.maximum(x, 0) ** 2


class Hybrid(Model):
    """A model whose layers keep states: heads have matrices [value][key], and each row of a text changes them."""

    def state(self, taps, heads, groups, key, value):
        self.taps, self.state_heads, self.groups, self.key, self.value = taps, heads, groups, key, value
        f = self.file
        f.add_ssm_conv_kernel(taps)
        f.add_ssm_state_size(key)
        f.add_ssm_group_count(groups)
        f.add_ssm_time_step_rank(heads)
        f.add_ssm_inner_size(heads * value)

    def attend(self, q, k, v):
        """As of Model, a head at a time: long texts have many scores."""
        kv, self.heads, self.kv, group = self.kv, 1, 1, self.heads // self.kv
        out = [Model.attend(self, q[h : h + 1], k[h // group : h // group + 1], v[h // group : h // group + 1], window=q.shape[1]) for h in range(kv * group)]
        self.heads, self.kv = kv * group, kv
        return np.concatenate(out, axis=-1)

    def both(self, run):
        """Writes the logits of tokens.txt, and of long.txt those of the last rows."""
        self.save(run(tokens))
        self.keep("long", run(long)[-LAST:])

    def convolve(self, at, x, bias):
        w = self.tensor(at + "ssm_conv1d.weight", x.shape[-1], self.taps, spread=0.5)
        padded = np.concatenate([np.zeros((self.taps - 1, x.shape[-1])), x])
        y = sum(padded[t : t + len(x)] * w[:, t] for t in range(self.taps))
        return silu(y + (self.tensor(at + "ssm_conv1d.bias", x.shape[-1], spread=0.3) if bias else 0))

    def rms_groups(self, name, x, groups):  # x is [tokens][groups*...], and each group has weights of its own
        y = x.reshape(len(x), groups, -1)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + EPS) * self.tensor(name, groups, y.shape[-1], mean=1, spread=0.2)
        return y.reshape(len(x), -1)

    def mamba(self, at, x, normed=True, bias=True):
        heads, key, value, groups = self.state_heads, self.key, self.value, self.groups
        inner, shared = heads * value, groups * key
        z, mixed, time = np.split(self.times(at + "ssm_in", x, 2 * inner + 2 * shared + heads), [inner, 2 * inner + 2 * shared], axis=-1)
        mixed = self.convolve(at, mixed, bias)
        time = softplus(time + self.tensor(at + "ssm_dt.bias", heads, spread=0.5))
        rate = self.tensor(at + "ssm_a", heads, 1, mean=-1, spread=0.2)[:, 0]
        skip = self.tensor(at + "ssm_d", heads, 1, mean=1, spread=0.2)[:, 0]
        y = np.zeros((len(x), heads, value))
        for h in range(heads):
            s, g = np.zeros((value, key)), h // (heads // groups)
            for t, row in enumerate(mixed):
                v, b, c = row[h * value : (h + 1) * value], row[inner + g * key :][:key], row[inner + shared + g * key :][:key]
                s = np.exp(time[t, h] * rate[h]) * s + time[t, h] * np.outer(v, b)
                y[t, h] = s @ c + skip[h] * v
        y = y.reshape(len(x), -1) * silu(z)
        if normed:
            y = self.rms_groups(at + "ssm_norm.weight", y, groups)
        return self.times(at + "ssm_out", y, self.width)

    def delta(self, at, x, legacy=False, tiled=False):
        """Qwen3-Next's gated delta rule: heads of a group of keys are neighbours. Qwen3.5's are tiled: head h has the keys of group h mod groups."""
        heads, key, value, groups = self.state_heads, self.key, self.value, self.groups
        each, inner, shared, n = heads // groups, heads * value, groups * key, len(x)
        if legacy:  # of each group its query, key, values and gates
            parts = self.times(at + "ssm_in", x, 2 * shared + 2 * inner).reshape(n, groups, -1)
            q, k, v, z = (p.reshape(n, -1) for p in np.split(parts, [key, 2 * key, 2 * key + each * value], axis=-1))
            mixed = np.concatenate([q, k, v], axis=-1)
        else:
            mixed, z = self.times(at + "attn_qkv", x, 2 * shared + inner), self.times(at + "attn_gate", x, inner)
        if tiled:
            beta, alpha = self.times(at + "ssm_beta", x, heads), self.times(at + "ssm_alpha", x, heads)
        else:
            beta, alpha = np.split(self.times(at + "ssm_ba", x, 2 * heads).reshape(n, groups, 2 * each), 2, axis=-1)
        beta, alpha = sigmoid(beta.reshape(n, heads)), alpha.reshape(n, heads)
        mixed = self.convolve(at, mixed, False)
        decay = np.exp(softplus(alpha + self.tensor(at + "ssm_dt.bias", heads, spread=0.5)) * self.tensor(at + "ssm_a", heads, mean=-1, spread=0.2))
        unit = lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True) + EPS)
        y = np.zeros((n, heads, value))
        for h in range(heads):
            s, g = np.zeros((value, key)), h % groups if tiled else h // each
            for t, row in enumerate(mixed):
                q, k, v = unit(row[g * key :][:key]) / np.sqrt(key), unit(row[shared + g * key :][:key]), row[2 * shared + h * value :][:value]
                s = decay[t, h] * s
                s = s + np.outer(beta[t, h] * (v - s @ k), k)
                y[t, h] = s @ q
        y = self.rms(at + "ssm_norm", y).reshape(n, -1) * silu(z)
        return self.times(at + "ssm_out", y, self.width)


def nemotron(name, seed, kinds, experts=None, latent=0, drafts=0):
    """Layers that are Mamba 2 (M), attention (*) or a network (-) alone, behind one norm."""
    layers = kinds + "*" * drafts
    m = Hybrid("nemotron_h_moe" if experts else "nemotron_h", name, seed, width=24, heads=6, kv=[2 if k == "*" else 0 for k in layers], dim=8,
               ffn=[0 if k != "-" else 20 if experts else 40 for k in layers], layers=len(layers))
    m.kv = 2
    m.file.add_layer_norm_eps(EPS)
    m.state(4, 6, 2, 12, 8)
    if experts:
        m.file.add_expert_count(7)
        m.file.add_expert_used_count(3)
        m.file.add_expert_feed_forward_length(20)
        m.file.add_expert_shared_feed_forward_length(28)
        m.file.add_expert_shared_count(1)
        m.file.add_expert_weights_norm(True)
        m.file.add_expert_weights_scale(2.5)
        if latent:
            m.file.add_moe_latent_size(latent)
    if drafts:
        m.file.add_nextn_predict_layers(drafts)
    def run(tokens):
        x = m.embedding[tokens]
        for i, kind in enumerate(kinds):
            at = f"blk.{i}."
            y = m.rms(at + "attn_norm", x)
            if kind == "M":
                y = m.mamba(at, y)
            elif kind == "*":
                q, k, v = m.qkv(at, y)
                y = m.times(at + "attn_output", m.attend(m.split(q, 6), m.split(k, 2), m.split(v, 2)), m.width)
            elif experts:
                y = m.experts(at, y, gate=sigmoid, preferred=True, scale=2.5, shared=28, act=squared_relu, latent=latent)
            else:
                y = m.times(at + "ffn_down", squared_relu(m.times(at + "ffn_up", y, 40)), m.width)
            x = x + y
        return m.logits(m.rms("output_norm", x))

    x = run(tokens)[:, :24]
    for i in range(len(kinds), len(layers)):  # attention and experts, which draft tokens
        at = f"blk.{i}."
        m.qkv(at, x)
        m.tensor(at + "attn_output.weight", 24, 48)
        m.tensor(at + "nextn.eh_proj.weight", 24, 48)
        for n in ("attn_norm", "post_attention_norm", "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm"):
            m.tensor(f"{at}{n}.weight", 24)
        m.experts(at, x[:1], gate=sigmoid, preferred=True, shared=28, act=squared_relu, latent=latent)
    m.both(run)


class Qwen(Hybrid):
    """Qwen3-Next, Qwen3.5 and Qwen3.5's mixtures of experts: all but every third layer have states, and attention has gates."""

    def __init__(self, arch, name, seed, drafts=0):
        super().__init__(arch, name, seed, width=24, heads=6, kv=2, dim=12, ffn=20, layers=4 + drafts)
        self.state(4, 6, 2, 12, 12)
        self.arch, self.mixed = arch, arch != "qwen35"
        if self.mixed:
            self.file.add_expert_count(7)
            self.file.add_expert_used_count(3)
            self.file.add_expert_feed_forward_length(20)
            self.file.add_expert_shared_feed_forward_length(28)
        if arch != "qwen3next":
            self.file.add_rope_dimension_sections([1, 1, 1, 0])
        self.file.add_rope_dimension_count(6)
        self.file.add_full_attention_interval(3)
        if drafts:
            self.file.add_nextn_predict_layers(drafts)

    def layer(self, at, x, whole, legacy=False):
        y = self.rms(at + "attn_norm", x)
        if not whole:
            y = self.delta(at, y, legacy, self.arch != "qwen3next")
        else:
            q = self.times(at + "attn_q", y, 2 * 72).reshape(len(x), 6, 2, 12)
            k, v = self.times(at + "attn_k", y, 24), self.times(at + "attn_v", y, 24)
            q, gate = self.rms(at + "attn_q_norm", q[:, :, 0].transpose(1, 0, 2)), q[:, :, 1].reshape(len(x), -1)
            k = self.rms(at + "attn_k_norm", self.split(k, 2))
            a = self.attend(halves(q, dims=6), halves(k, dims=6), self.split(v, 2))
            y = self.times(at + "attn_output", a * sigmoid(gate), self.width)
        x = x + y
        y = self.rms(at + "post_attention_norm", x)
        return x + (self.experts(at, y, shared=28, gated=True) if self.mixed else self.gated(at, y, silu))

    def hidden(self, tokens, legacy=False):
        x = self.embedding[tokens]
        for i in range(4):
            x = self.layer(f"blk.{i}.", x, (i + 1) % 3 == 0, legacy)
        return self.rms("output_norm", x)


def qwen3next(name, seed, legacy):
    m = Qwen("qwen3next", name, seed)
    m.both(lambda tokens: m.logits(m.hidden(tokens, legacy)))


CHAINED = 5  # the token behind tokens.txt that an MTP head's last row has


def head(m, at, hidden, layer, own=False):
    """An MTP head's logits (DeepSeek-V3's report, section 2.2; vLLM's qwen3_next_mtp.py and glm4_moe_mtp.py): row p joins the hidden state of
    position p, which the last norm has passed, with the embedding of the token behind it, and guesses the one behind that. The last row is chained: its
    hidden state is what the head made of the row before. Own: the head has an embedding, a last norm and an output matrix of its own."""
    embedding = m.tensor(at + "nextn.embed_tokens.weight", VOCAB, m.width, spread=1) if own else m.embedding
    def run(hidden, ids):
        pair = np.concatenate([m.rms(at + "nextn.enorm", embedding[ids]), m.rms(at + "nextn.hnorm", hidden)], axis=-1)
        x = layer(at, m.times(at + "nextn.eh_proj", pair, m.width))
        return m.rms(at + "nextn.shared_head_norm" if own else "output_norm", x)
    given = run(hidden[:-1], tokens[1:])
    given = run(np.concatenate([hidden[:-1], given[-1:]]), np.append(tokens[1:], CHAINED))
    return given @ (m.tensor(at + "nextn.shared_head_head.weight", VOCAB, m.width) if own else m.tensor("output.weight", VOCAB, m.width)).T


def qwen_mtp(arch, seed, own):
    m = Qwen(arch, arch + "-mtp", seed, drafts=1)
    hidden = m.hidden(tokens)
    logits = m.logits(hidden)
    m.keep("mtp", head(m, "blk.4.", hidden, lambda at, x: m.layer(at, x, whole=True), own))
    m.save(logits)


def falcon(name, seed, normed):
    m = Hybrid("falcon-h1", name, seed, width=24, heads=6, kv=2, dim=8, ffn=40)
    m.state(4, 6, 2, 12, 8)
    m.file.add_rope_freq_base(f32(1e11))
    def run(tokens):
        x = m.embedding[tokens]
        for i in range(LAYERS):
            at = f"blk.{i}."
            y = m.rms(at + "attn_norm", x)
            q, k, v = m.qkv(at, y)
            turn = lambda a, n: halves(m.split(a, n), f32(1e11))
            a = m.times(at + "attn_output", m.attend(turn(q, 6), turn(k, 2), m.split(v, 2)), m.width)
            x = x + a + m.mamba(at, y, normed)
            y = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * m.tensor(at + "ffn_norm", m.width, mean=1, spread=0.2)  # a name without .weight
            x = x + m.gated(at, y, silu)
        return m.logits(m.rms("output_norm", x))

    m.both(run)


def lfm2(name, seed):
    m = Hybrid("lfm2", name, seed, width=24, heads=6, kv=[0, 2, 0, 0], dim=8, ffn=40, layers=4)
    m.kv = 2
    m.file.add_shortconv_l_cache(3)
    m.file.add_rope_freq_base(f32(1e6))

    def run(tokens):
        x = m.embedding[tokens]
        for i in range(4):
            at = f"blk.{i}."
            y = m.rms(at + "attn_norm", x)
            if i != 1:
                b, c, z = np.split(m.times(at + "shortconv.in_proj", y, 72), 3, axis=-1)
                w, z = m.tensor(at + "shortconv.conv.weight", 24, 3, spread=0.5), np.concatenate([np.zeros((2, 24)), b * z])
                y = m.times(at + "shortconv.out_proj", c * sum(z[t : t + len(x)] * w[:, t] for t in range(3)), 24)
            else:
                q, k, v = (m.split(a, n) for a, n in zip(m.qkv(at, y), (6, 2, 2)))
                turn = lambda a, n: halves(m.rms(at + n, a), f32(1e6))
                y = m.times(at + "attn_output", m.attend(turn(q, "attn_q_norm"), turn(k, "attn_k_norm"), v), 24)
            x = x + y
            x = x + m.gated(at, m.rms(at + "ffn_norm", x), silu)
        return m.logits(m.rms("token_embd_norm", x), tied=True)

    m.both(run)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    tokens = np.random.default_rng(2).integers(0, VOCAB, TOKENS)
    long = np.random.default_rng(3).integers(0, VOCAB, LONG)
    (folder / "long.txt").write_text(" ".join(map(str, long)) + "\n")
    (folder / "tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
    phi3("phi3", window=25)
    phi3("phi3-whole")
    granite(True)
    granite(False)
    gemma()
    gemma3()
    qwen("qwen2vl", 24, [1, 2, 1, 0])
    qwen("qwen3vl", 25, [2, 2, 2, 0])
    behind("olmo2", "olmo2", 26, whole=True)
    behind("olmo2", "olmo3", 38, whole=True, window=20)
    behind("exaone4", "exaone4", 27, whole=False)
    behind("exaone4", "exaone4-window", 39, whole=False, window=20, layers=64, width=12, heads=3, kv=1, ffn=16)
    apertus()
    glm4()
    plain("seed_oss", 31, halves, bias=True, dim=8, norm="post_attention_norm")
    plain("ernie4_5", 32, neighbours, dim=10, tied=True)
    plain("internlm2", 33, neighbours)
    plain("hunyuan-dense", 34, halves, dim=8, late=True, tied=True)
    plain("arcee", 35, neighbours)
    by_mean("starcoder2", "starcoder2", 36, 8, biases=True, window=30)
    by_mean("starcoder2", "starcoder2-whole", 36, 8, biases=True)
    by_mean("stablelm", "stablelm", 37, 4, biases=False)
    cohere("command-r", 40, window=None)
    cohere("cohere2", 41, window=20)
    mixture("llama", 50, neighbours)
    width = ("add_expert_feed_forward_length", 20)
    shared = lambda n: ("add_expert_shared_feed_forward_length", n)
    mixture("qwen2moe", 51, bias=True, keys=[width, shared(28)], divided=False, shared=28, gated=True)
    mixture("olmoe", 52, whole=True, kv=6, divided=False)
    factors = embedding, residual, attention, logit = f32(3.5), f32(0.22), f32(0.2), f32(1.7)
    mixture("granitemoe", 53, neighbours, factors=factors, shared=28, keys=[shared(28), ("add_embedding_scale", embedding), ("add_residual_scale", residual),
            ("add_attention_scale", attention), ("add_logit_scale", logit)])
    mixture("ernie4_5-moe", 54, neighbours, dense=1, step=1, shared=28, preferred=True, dim=10, keys=[width, shared(28), ("add_leading_dense_block_count", 1),
            ("add_interleave_moe_layer_step", 1), ("add_expert_shared_count", 1)])
    mixture("hunyuan-moe", 55, heads=True, late=True, dim=8, shared=28, keys=[width, shared(28)])
    mixture("glm4moe", 56, lambda x: halves(x, dims=6), heads=True, bias=True, norm="post_attention_norm", dense=1, drafts=1, dim=12, dims=6, shared=40,
            preferred=True, gate=sigmoid, scale=1.5, keys=[width, ("add_leading_dense_block_count", 1), ("add_expert_shared_count", 2),
            ("add_expert_weights_scale", 1.5), ("add_expert_weights_norm", True), ("add_nextn_predict_layers", 1)])
    mixture("bailingmoe2", 57, heads=True, fused=True, dense=1, shared=28, preferred=True, gate=sigmoid, scale=2.5, count=8, groups=(4, 2), keys=[width, shared(28),
            ("add_leading_dense_block_count", 1), ("add_expert_shared_count", 1), ("add_expert_weights_scale", 2.5), ("add_expert_weights_norm", True),
            ("add_expert_gating_func", gguf.ExpertGatingFuncType.SIGMOID), ("add_expert_group_count", 4), ("add_expert_group_used_count", 2)])
    mixture("qwen3vlmoe", 58, lambda x: halves(x, f32(5e6)), heads=True, dim=12, keys=[width, ("add_rope_freq_base", 5e6),
            ("add_rope_dimension_sections", [2, 2, 2, 0]), ("add_num_deepstack_layers", 2)])
    nemotron("nemotron_h", 60, "M-M*-")
    nemotron("nemotron_h_moe-latent", 61, "M-*M-", experts=True, latent=16, drafts=1)
    qwen3next("qwen3next", 80, legacy=False)
    qwen3next("qwen3next-first", 87, legacy=True)
    qwen_mtp("qwen35", 100, own=False)
    qwen_mtp("qwen35moe", 98, own=False)
    qwen_mtp("qwen3next", 98, own=True)
    glm_mtp(93, own=True)
    falcon("falcon-h1", 64, normed=True)
    falcon("falcon-h1-plain", 65, normed=False)
    lfm2("lfm2-small", 66)
