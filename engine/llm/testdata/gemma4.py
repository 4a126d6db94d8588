#!/usr/bin/env python3
"""Tiny random models of Gemma 4's kind and their outputs in doubles, from the definitions.

    gemma4.py FOLDER          writes of each model decoders/NAME.gguf and NAME.logits, encoders/NAME.gguf, NAME.hidden and NAME.pooled
    gemma4.py FOLDER MODEL…   compares the definition with MODEL.gguf and MODEL.logits that others made

gemma4-dense has the form of 12B and 31B: layers without a window have wider heads, fewer of keys, and no matrix of values.
gemma4-small has that of E2B and E4B: an input of every layer, the last layers read keys and values of earlier ones and have wider networks.
gemma-embedding2 sees whole texts and makes its layers' inputs of the embeddings alone. Nothing of it is the engine's. The tokens are
those of decoders.py and encoders.py. Needs numpy and gguf.
"""
import sys, pathlib
import numpy as np
import gguf

VOCAB, TOKENS, EPS = 60, 70, np.float64(np.float32(1e-6))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, w=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def turn(x, base, factors):
    """x is [heads][tokens][dim]; element i turns with element i + dim/2."""
    h = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] * (base ** (-np.arange(h) / h) / factors)[None, :]
    a, b = x[..., :h], x[..., h:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def heads(x, n):
    return x.reshape(len(x), n, -1).transpose(1, 0, 2)


class Sizes:
    def __init__(self, **all):
        self.__dict__.update(dict(width=24, heads=4, shared=0, inputs=0, experts=0, use=0, symmetric=False, cap=0.0), **all)
        self.layers = len(self.local)


def compute(s, t, tokens):
    """Hidden states behind the last norm. t gives a tensor by name, or None; shapes are [rows][columns]."""
    def has(name):
        return t(name + ".weight") is not None

    def times(name, x):
        return x @ t(name + ".weight").T

    n, width = len(tokens), s.width
    x = t("token_embd.weight")[tokens] * np.sqrt(np.float64(width))
    if s.inputs:
        own = times("per_layer_model_proj", x) / np.sqrt(width)
        own = rms(own.reshape(n, s.layers, s.inputs), t("per_layer_proj_norm.weight"))
        if has("per_layer_token_embd"):
            rows = t("per_layer_token_embd.weight")[tokens].reshape(n, s.layers, s.inputs)
            own = (rows * np.sqrt(s.inputs) + own) / np.sqrt(2)
    stored, first = {}, s.layers - s.shared
    far = np.arange(n)[:, None] - np.arange(n)[None, :]
    for i in range(s.layers):
        at, local = f"blk.{i}.", s.local[i]
        y = rms(x, t(at + "attn_norm.weight"))
        base = s.base_local if local else s.base
        factors = 1.0 if local or t("rope_freqs.weight") is None else t("rope_freqs.weight")
        q = turn(rms(heads(times(at + "attn_q", y), s.heads), t(at + "attn_q_norm.weight")), base, factors)
        if i < first:
            k = heads(times(at + "attn_k", y), s.kv[i])
            v = heads(times(at + "attn_v", y), s.kv[i]) if has(at + "attn_v") else k
            stored[i] = turn(rms(k, t(at + "attn_k_norm.weight")), base, factors), rms(v)
            k, v = stored[i]
        else:
            k, v = stored[max(j for j in range(first) if s.local[j] == local)]
        group = s.heads // len(k)
        k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
        seen = far >= 0
        if s.symmetric:
            seen = abs(far) <= s.window // 2 if local else far > -n
        elif local:
            seen = seen & (far < s.window)
        a = softmax(np.where(seen, q @ k.transpose(0, 2, 1), -np.inf)) @ v
        x = x + rms(times(at + "attn_output", a.transpose(1, 0, 2).reshape(n, -1)), t(at + "post_attention_norm.weight"))
        y = rms(x, t(at + "ffn_norm.weight"))
        f = times(at + "ffn_down", gelu(times(at + "ffn_gate", y)) * times(at + "ffn_up", y))
        if s.experts:
            f = rms(f, t(at + "post_ffw_norm_1.weight")) + rms(mixture(s, t, at, x), t(at + "post_ffw_norm_2.weight"))
        x = x + rms(f, t(at + "post_ffw_norm.weight"))
        if s.inputs:
            g = gelu(times(at + "inp_gate", x)) * own[:, i]
            x = x + rms(times(at + "proj", g), t(at + "post_norm.weight"))
        scale = t(at + "layer_output_scale.weight")
        x = x if scale is None else x * scale[0]
    return rms(x, t("output_norm.weight"))


def mixture(s, t, at, x):
    """The router sees the residual itself, normed without a weight; the experts see it normed."""
    p = softmax(rms(x) / np.sqrt(s.width) * t(at + "ffn_gate_inp.scale") @ t(at + "ffn_gate_inp.weight").T)
    y, out = rms(x, t(at + "pre_ffw_norm_2.weight")), np.zeros_like(x)
    up, down, scale = t(at + "ffn_gate_up_exps.weight"), t(at + "ffn_down_exps.weight"), t(at + "ffn_down_exps.scale")
    for row in range(len(x)):
        best = np.argsort(-p[row])[: s.use]
        for e in best:
            gate, value = np.split(up[e] @ y[row], 2)
            out[row] += p[row, e] / p[row, best].sum() * scale[e] * (down[e] @ (gelu(gate) * value))
    return out


def logits(s, t, hidden):
    x = hidden @ t("token_embd.weight").T
    return s.cap * np.tanh(x / s.cap) if s.cap else x


class File:
    """A file of random weights: a tensor is made when its shape is told."""

    def __init__(self, path, arch, seed, s, **made):
        self.random, self.tensors = np.random.default_rng(seed), {}
        self.file = f = gguf.GGUFWriter(str(path) + ".gguf", arch)
        f.add_block_count(s.layers)
        f.add_tokenizer_model("no_vocab")
        f.add_vocab_size(VOCAB)
        f.add_context_length(128)
        f.add_embedding_length(s.width)
        f.add_feed_forward_length(s.ffn)
        f.add_head_count(s.heads)
        f.add_head_count_kv(s.kv)
        f.add_key_length(s.dim)
        f.add_value_length(s.dim)
        f.add_key_length_swa(s.dim_local)
        f.add_value_length_swa(s.dim_local)
        f.add_rope_dimension_count(s.dim)
        f.add_rope_dimension_count_swa(s.dim_local)
        f.add_rope_freq_base(s.base)
        f.add_rope_freq_base_swa(s.base_local)
        f.add_layer_norm_rms_eps(EPS)
        f.add_sliding_window(s.window)
        f.add_sliding_window_pattern(s.local)
        f.add_embedding_length_per_layer_input(s.inputs)
        if not s.symmetric:
            f.add_shared_kv_layers(s.shared)
        if s.cap:
            f.add_final_logit_softcapping(s.cap)
        self.matrix("token_embd", VOCAB, s.width, spread=0.5)
        self.vector("output_norm", s.width)
        if s.inputs:
            self.matrix("per_layer_model_proj", s.layers * s.inputs, s.width)
            self.vector("per_layer_proj_norm", s.inputs)
            if not s.symmetric:
                self.matrix("per_layer_token_embd", VOCAB, s.layers * s.inputs, spread=0.5)
        for i in range(s.layers):
            self.layer(f"blk.{i}.", i, s, **made)

    def layer(self, at, i, s, values=True):
        dim = s.dim_local if s.local[i] else s.dim
        ffn = s.ffn[i] if isinstance(s.ffn, list) else s.ffn
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            self.vector(at + name, s.width)
        self.matrix(at + "attn_q", s.heads * dim, s.width)
        self.vector(at + "attn_q_norm", dim)
        if i < s.layers - s.shared:
            self.matrix(at + "attn_k", s.kv[i] * dim, s.width)
            self.vector(at + "attn_k_norm", dim)
            if values or s.local[i]:
                self.matrix(at + "attn_v", s.kv[i] * dim, s.width)
        self.matrix(at + "attn_output", s.width, s.heads * dim)
        self.matrix(at + "ffn_gate", ffn, s.width)
        self.matrix(at + "ffn_up", ffn, s.width)
        self.matrix(at + "ffn_down", s.width, ffn)
        if s.inputs:
            self.matrix(at + "inp_gate", s.inputs, s.width)
            self.matrix(at + "proj", s.width, s.inputs)
            self.vector(at + "post_norm", s.width)
        if i != 1 or s.symmetric:
            self.add(at + "layer_output_scale.weight", np.array([0.6 + 0.1 * i]))

    def add(self, name, v):
        v = v.astype(np.float32)
        self.file.add_tensor(name, v)
        self.tensors[name] = v.astype(np.float64)

    def matrix(self, name, rows, cols, spread=None):
        self.add(name + ".weight", self.random.standard_normal((rows, cols)) * (1.5 / np.sqrt(cols) if spread is None else spread))

    def vector(self, name, n):
        self.add(name + ".weight", 1 + 0.2 * self.random.standard_normal(n))

    def save(self):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()


def read(path):
    return np.array([int(w) for w in path.read_text().split()])


def decoder(folder, name, seed, s, **made):
    f = File(folder / name, "gemma4", seed, s, **made)
    f.add("rope_freqs.weight", np.array([1.0] * (s.dim // 4) + [1e30] * (s.dim // 2 - s.dim // 4)))
    f.save()
    logits(s, f.tensors.get, compute(s, f.tensors.get, read(folder / "tokens.txt"))).astype("<f4").tofile(f"{folder / name}.logits")


def encoder(folder, name, seed, s, out):
    f = File(folder / name, name, seed, s)
    f.file.add_causal_attention(False)
    f.file.add_pooling_type(gguf.PoolingType.MEAN)
    f.file.add_embedding_length_out(out)
    f.matrix("output", out, s.width)
    f.save()
    hidden = compute(s, f.tensors.get, read(folder / "tokens.txt"))
    hidden.astype("<f4").tofile(f"{folder / name}.hidden")
    (hidden.mean(0) @ f.tensors["output.weight"].T).astype("<f4").tofile(f"{folder / name}.pooled")


def compare(path):
    """The definition against a file and its logits of others."""
    r = gguf.GGUFReader(str(path) + ".gguf")
    get = lambda key, default=None: r.fields["gemma4." + key].contents() if "gemma4." + key in r.fields else default
    each = lambda v, n: v if isinstance(v, list) else [v] * n
    global EPS
    EPS = np.float64(np.float32(get("attention.layer_norm_rms_epsilon")))
    layers = get("block_count")
    s = Sizes(
        width=get("embedding_length"), heads=get("attention.head_count"), kv=each(get("attention.head_count_kv"), layers),
        local=get("attention.sliding_window_pattern"), window=get("attention.sliding_window"), shared=get("attention.shared_kv_layers"),
        inputs=get("embedding_length_per_layer_input"), cap=get("final_logit_softcapping"), base=get("rope.freq_base"),
        base_local=get("rope.freq_base_swa"), experts=get("expert_count", 0), use=get("expert_used_count", 0))
    tensors = {x.name: x.data.astype(np.float64) for x in r.tensors}
    got = logits(s, tensors.get, compute(s, tensors.get, read(path.parent / "tokens.txt"))).astype(np.float32)
    want = np.fromfile(str(path) + ".logits", "<f4").reshape(got.shape)
    print(path.name, "relative L2", np.linalg.norm(got - want) / np.linalg.norm(want))


def main():
    folder = pathlib.Path(sys.argv[1])
    for model in sys.argv[2:]:
        compare(pathlib.Path(model))
    common = dict(base=1e6, base_local=1e4, dim=12, dim_local=8)
    small = dict(local=[True, False, True, False, True, True, False], kv=[2, 1, 2, 1, 2, 2, 1], window=20, shared=3, inputs=6)
    decoder(folder / "decoders", "gemma4-small", 51, Sizes(ffn=[40] * 4 + [56] * 3, cap=30.0, **small, **common))
    dense = dict(local=[True, True, False, True, False], kv=[2, 2, 1, 2, 1], window=20)
    decoder(folder / "decoders", "gemma4-dense", 52, Sizes(ffn=40, cap=30.0, **dense, **common), values=False)
    text = dict(local=[True, True, False, True], kv=[2, 2, 1, 2], window=18, inputs=6, symmetric=True)
    encoder(folder / "encoders", "gemma-embedding2", 53, Sizes(ffn=40, **text, **common), 20)


main()
