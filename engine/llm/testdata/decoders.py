#!/usr/bin/env python3
"""Tiny random language models and their logits in doubles, from the definitions.

    decoders.py FOLDER

writes of each architecture NAME.gguf, the logits of tokens.txt (NAME.logits, float32, [tokens][vocabulary]) and tokens.txt. The
definitions are those of the models' own code and of GGUF's converters, written down here once more in numpy: nothing of it
is the engine's. Sizes are such that accidents show: key-value heads are fewer than heads, three layers, vocabulary and
widths are no powers of two. Needs numpy and gguf.
"""
import sys, pathlib
import numpy as np
import gguf

VOCAB, TOKENS, LAYERS = 60, 70, 3
EPS = np.float64(np.float32(1e-5))


def f32(x):  # as a file holds it
    return np.float64(np.float32(x))


class Model:
    def __init__(self, arch, name, seed, width=24, heads=3, kv=1, dim=None, ffn=40, context=128, layer_norm=False):
        self.random, self.tensors, self.name = np.random.default_rng(seed), {}, name
        self.width, self.heads, self.kv, self.dim, self.ffn = width, heads, kv, dim or width // heads, ffn
        self.file = f = gguf.GGUFWriter(str(folder / name) + ".gguf", arch)
        f.add_block_count(LAYERS)
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

    def rms(self, name, x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * self.tensor(name + ".weight", x.shape[-1], mean=1, spread=0.2)

    def layer_norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
        n = x.shape[-1]
        return x * self.tensor(name + ".weight", n, mean=1, spread=0.2) + self.tensor(name + ".bias", n, spread=0.2)

    def split(self, x, heads):  # [heads][tokens][dim]
        return x.reshape(len(x), heads, -1).transpose(1, 0, 2)

    def fused_qkv(self, at, x):
        q, k = self.heads * self.dim, self.kv * self.dim
        return np.split(self.times(at + "attn_qkv", x, q + 2 * k), [q, q + k], axis=-1)

    def qkv(self, at, x, bias=False):
        return [self.times(at + "attn_" + n, x, h * self.dim, bias) for n, h in (("q", self.heads), ("k", self.kv), ("v", self.kv))]

    def attend(self, q, k, v, scale=None):
        """Causal attention of heads of queries, whose neighbours share a head of keys and values: [tokens][heads*dim]."""
        n, group = q.shape[1], self.heads // self.kv
        k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
        s = q @ k.transpose(0, 2, 1) * (1 / np.sqrt(self.dim) if scale is None else scale)
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)

    def gated(self, at, x, act):
        return self.times(at + "ffn_down", act(self.times(at + "ffn_gate", x, self.ffn)) * self.times(at + "ffn_up", x, self.ffn), self.width)

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


def neighbours(x, base=1e4, dims=None):
    """Rotates elements 2i and 2i+1 of the first dims of a head."""
    dims = dims or x.shape[-1]
    angle = np.arange(x.shape[1])[:, None] * (base ** (-2 * np.arange(dims // 2) / dims))[None, :]
    y = x.copy()
    a, b = x[..., 0:dims:2], x[..., 1:dims:2]
    y[..., 0:dims:2], y[..., 1:dims:2] = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return y


def phi3():
    """Phi-4-mini: three quarters of a head rotate, by factors for texts beyond 80 tokens, or others where no text is longer."""
    m = Model("phi3", "phi3", 21, width=24, heads=3, kv=1)
    original, context, dims = 80, 128, 6
    magnitude = f32(np.sqrt(1 + np.log(context / original) / np.log(original)))
    m.file.add_rope_dimension_count(dims)
    m.file.add_rope_scaling_orig_ctx_len(original)
    m.file.add_rope_scaling_attn_factors(magnitude)
    m.file.add_sliding_window(0)
    short = m.tensor("rope_factors_short.weight", dims // 2, mean=1.2, spread=0.1)
    long = m.tensor("rope_factors_long.weight", dims // 2, mean=4, spread=1)

    def run(factors):
        x = m.embedding[tokens]
        for i in range(LAYERS):
            at = f"blk.{i}."
            q, k, v = m.fused_qkv(at, m.rms(at + "attn_norm", x))
            turn = lambda y: halves(y, dims=dims, factors=factors, magnitude=magnitude)
            a = m.attend(turn(m.split(q, m.heads)), turn(m.split(k, m.kv)), m.split(v, m.kv))
            x = x + m.times(at + "attn_output", a, m.width)
            x = x + m.fused_gated(at, m.rms(at + "ffn_norm", x), silu)
        return m.logits(m.rms("output_norm", x), tied=True)

    m.save(run(long))
    m.keep("short", run(short))


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    tokens = np.random.default_rng(2).integers(0, VOCAB, TOKENS)
    (folder / "tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
    phi3()
