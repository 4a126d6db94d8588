#!/usr/bin/env python3
"""Tiny random text encoders and their hidden states in doubles, from the definitions.

    encoders.py FOLDER

writes jina-bert-v2.gguf, jina-bert-v2-code.gguf, nomic-bert-moe.gguf, the hidden states of tokens.txt
(.hidden, float32, [tokens][width]) and tokens.txt. The definitions are those of the models' own code, written
down here once more in numpy: no package carries that code. Needs numpy and gguf.
"""
import sys, pathlib
import numpy as np
import gguf

WIDTH, HEADS, FFN, LAYERS, VOCAB, TOKENS = 24, 3, 40, 3, 60, 70
DIM = WIDTH // HEADS


class Model:
    def __init__(self, folder, arch, name, seed):
        self.random, self.tensors = np.random.default_rng(seed), {}
        self.path = folder / name
        self.file = f = gguf.GGUFWriter(str(self.path) + ".gguf", arch)
        f.add_block_count(LAYERS)
        f.add_context_length(128)
        f.add_embedding_length(WIDTH)
        f.add_feed_forward_length(FFN)
        f.add_head_count(HEADS)
        f.add_layer_norm_eps(1e-5)
        f.add_causal_attention(False)
        f.add_pooling_type(gguf.PoolingType.MEAN)
        f.add_token_type_count(1)

    def new(self, name, *shape, mean=0.0, spread=None):
        spread = 1.5 / np.sqrt(shape[-1]) if spread is None else spread
        v = (mean + spread * self.random.standard_normal(shape)).astype(np.float32)
        self.file.add_tensor(name, v)
        self.tensors[name] = v.astype(np.float64)

    def norm(self, name):
        self.new(name + ".weight", WIDTH, mean=1, spread=0.2)
        self.new(name + ".bias", WIDTH, spread=0.2)

    def linear(self, name, rows, cols, bias=True):
        self.new(name + ".weight", rows, cols)
        if bias:
            self.new(name + ".bias", rows, spread=0.2)

    def begin(self):
        self.new("token_embd.weight", VOCAB, WIDTH, spread=1)
        self.new("token_types.weight", 1, WIDTH, spread=0.3)
        self.norm("token_embd_norm")

    def save(self, hidden):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()
        hidden.astype("<f4").tofile(str(self.path) + ".hidden")

    def has(self, name):
        return name + ".weight" in self.tensors

    def times(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors.get(name + ".bias", 0)

    def normed(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float64(np.float32(1e-5)))
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def embedded(self, tokens):
        t = self.tensors
        return self.normed("token_embd_norm", t["token_embd.weight"][tokens] + t["token_types.weight"][0])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):  # the tanh form, as in GGUF's runtimes
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def heads(x):
    return x.reshape(len(x), HEADS, DIM).transpose(1, 0, 2)


def attend(q, k, v, bias):
    s = heads(q) @ heads(k).transpose(0, 2, 1) / np.sqrt(DIM) + bias
    return (softmax(s) @ heads(v)).transpose(1, 0, 2).reshape(len(q), WIDTH)


def alibi(n, heads=HEADS, most=8.0):
    """Press, Smith and Lewis: slopes of the largest power of two of heads, then every other one of twice as many."""
    def powers(n):
        return [2 ** (-most * (i + 1) / n) for i in range(n)]
    even = 2 ** int(np.floor(np.log2(heads)))
    slopes = np.array(powers(even) + powers(2 * even)[0::2][: heads - even])
    p = np.arange(n)
    return -slopes[:, None, None] * np.abs(p[:, None] - p[None, :])


def jina(folder, tokens, code):
    m = Model(folder, "jina-bert-v2", "jina-bert-v2" + ("-code" if code else ""), 11 + code)
    m.begin()
    x, bias = m.embedded(tokens), alibi(len(tokens))
    for i in range(LAYERS):
        at = f"blk.{i}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            m.linear(at + name, WIDTH, WIDTH)
        if code:
            for name in ("attn_q_norm", "attn_k_norm", "attn_norm_2"):
                m.norm(at + name)
            m.linear(at + "ffn_up", 2 * FFN, WIDTH, bias=False)  # the gate first, in one tensor
        else:
            m.linear(at + "ffn_gate", FFN, WIDTH, bias=False)
            m.linear(at + "ffn_up", FFN, WIDTH, bias=False)
        m.linear(at + "ffn_down", WIDTH, FFN)
        m.norm(at + "attn_output_norm")
        m.norm(at + "layer_output_norm")
        q, k, v = (m.times(at + name, x) for name in ("attn_q", "attn_k", "attn_v"))
        if code:
            q, k = m.normed(at + "attn_q_norm", q), m.normed(at + "attn_k_norm", k)
        y = m.normed(at + "attn_output_norm", x + m.times(at + "attn_output", attend(q, k, v, bias)))
        if code:
            y = m.normed(at + "attn_norm_2", x + y)
            gate, up = np.split(m.times(at + "ffn_up", y), 2, axis=-1)
        else:
            gate, up = m.times(at + "ffn_gate", y), m.times(at + "ffn_up", y)
        x = m.normed(at + "layer_output_norm", y + m.times(at + "ffn_down", gelu(gate) * up))
    m.save(x)


def rotated(x, base):
    """Rotary positions of halves (NeoX)."""
    h, n = heads(x), len(x)
    angle = np.arange(n)[:, None] * base ** (-2 * np.arange(DIM // 2) / DIM)[None, :]
    a, b = h[..., : DIM // 2], h[..., DIM // 2 :]
    h = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)
    return h.transpose(1, 0, 2).reshape(n, WIDTH)


def nomic(folder, tokens, experts=5, use=2):
    m = Model(folder, "nomic-bert-moe", "nomic-bert-moe", 13)
    m.file.add_rope_freq_base(10000.0)
    m.file.add_expert_count(experts)
    m.file.add_expert_used_count(use)
    m.file.add_moe_every_n_layers(2)
    m.begin()
    x = m.embedded(tokens)
    for i in range(LAYERS):
        at = f"blk.{i}."
        m.linear(at + "attn_qkv", 3 * WIDTH, WIDTH)
        m.linear(at + "attn_output", WIDTH, WIDTH)
        m.norm(at + "attn_output_norm")
        m.norm(at + "layer_output_norm")
        q, k, v = np.split(m.times(at + "attn_qkv", x), 3, axis=-1)
        y = m.normed(at + "attn_output_norm", x + m.times(at + "attn_output", attend(rotated(q, 1e4), rotated(k, 1e4), v, 0)))
        if i % 2 == 0:
            m.linear(at + "ffn_up", FFN, WIDTH)
            m.linear(at + "ffn_down", WIDTH, FFN)
            z = m.times(at + "ffn_down", gelu(m.times(at + "ffn_up", y)))
        else:
            m.linear(at + "ffn_gate_inp", experts, WIDTH, bias=False)
            m.new(at + "ffn_up_exps.weight", experts, FFN, WIDTH)
            m.new(at + "ffn_down_exps.weight", experts, WIDTH, FFN)
            up, down = m.tensors[at + "ffn_up_exps.weight"], m.tensors[at + "ffn_down_exps.weight"]
            share, z = softmax(m.times(at + "ffn_gate_inp", y)), np.zeros_like(y)
            for row in range(len(y)):
                for e in np.argsort(-share[row])[:use]:  # shares are not normed again
                    z[row] += share[row, e] * (down[e] @ gelu(up[e] @ y[row]))
        x = m.normed(at + "layer_output_norm", y + z)
    m.save(x)


folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
tokens = np.random.default_rng(1).integers(0, VOCAB, TOKENS)
(folder / "tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
jina(folder, tokens, False)
jina(folder, tokens, True)
nomic(folder, tokens)
