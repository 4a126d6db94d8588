#!/usr/bin/env python3
"""Tiny random text encoders and their hidden states in doubles, from the definitions.

    encoders.py FOLDER

writes jina-bert-v2.gguf, jina-bert-v2-code.gguf, nomic-bert-moe.gguf, the hidden states of tokens.txt
(.hidden, float32, [tokens][width]) and tokens.txt; modern-bert-laya.gguf with a decision head's scores at all tokens (.scores,
[types of questions][tokens]), and modern-bert-labels.gguf with a classifier's (.scores, [labels]). The definitions are those of the models' own code, written
down here once more in numpy: no package carries that code. Needs numpy and gguf.
"""
import math, sys, pathlib
import numpy as np
import gguf

WIDTH, HEADS, FFN, LAYERS, VOCAB, TOKENS = 24, 3, 40, 3, 60, 70
DIM = WIDTH // HEADS


class Model:
    def __init__(self, folder, arch, name, seed, layers=LAYERS, ffn=FFN, types=1, pooling=gguf.PoolingType.MEAN):
        self.random, self.tensors = np.random.default_rng(seed), {}
        self.path = folder / name
        self.file = f = gguf.GGUFWriter(str(self.path) + ".gguf", arch)
        f.add_block_count(layers)
        f.add_context_length(128)
        f.add_embedding_length(WIDTH)
        f.add_feed_forward_length(ffn)
        f.add_head_count(HEADS)
        f.add_layer_norm_eps(1e-5)
        f.add_causal_attention(False)
        f.add_pooling_type(pooling)
        f.add_token_type_count(types)

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

    def save(self, hidden, what=".hidden"):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()
        hidden.astype("<f4").tofile(str(self.path) + what)

    def has(self, name):
        return name + ".weight" in self.tensors

    def times(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors.get(name + ".bias", 0)

    def normed(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float64(np.float32(1e-5)))
        return x * self.tensors[name + ".weight"] + self.tensors.get(name + ".bias", 0)

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


def modern(m, tokens, layers, bases, reach, pattern):
    """The encoder of ModernBERT; what it gives is normed."""
    m.new("token_embd.weight", VOCAB, WIDTH, spread=1)
    m.new("token_embd_norm.weight", WIDTH, mean=1, spread=0.2)
    x, p = m.normed("token_embd_norm", m.tensors["token_embd.weight"][tokens]), np.arange(len(tokens))
    for i in range(layers):
        at, local = f"blk.{i}.", i % pattern != 0
        if i > 0:
            m.new(at + "attn_norm.weight", WIDTH, mean=1, spread=0.2)
        m.new(at + "ffn_norm.weight", WIDTH, mean=1, spread=0.2)
        m.linear(at + "attn_qkv", 3 * WIDTH, WIDTH, bias=False)
        m.linear(at + "attn_output", WIDTH, WIDTH, bias=False)
        m.linear(at + "ffn_up", 2 * FFN, WIDTH, bias=False)  # what the activation gets first
        m.linear(at + "ffn_down", WIDTH, FFN, bias=False)
        q, k, v = np.split(m.times(at + "attn_qkv", m.normed(at + "attn_norm", x) if i > 0 else x), 3, axis=-1)
        seen = np.where(abs(p[:, None] - p[None, :]) > reach, -np.inf, 0.0) if local else 0
        base = bases[local]
        x = x + m.times(at + "attn_output", attend(rotated(q, base), rotated(k, base), v, seen))
        gate, up = np.split(m.times(at + "ffn_up", m.normed(at + "ffn_norm", x)), 2, axis=-1)
        x = x + m.times(at + "ffn_down", gelu(gate) * up)
    m.new("output_norm.weight", WIDTH, mean=1, spread=0.2)
    return m.normed("output_norm", x)


def windows(m, bases, reach, pattern):
    m.file.add_rope_freq_base(bases[0])
    m.file.add_rope_freq_base_swa(bases[1])
    m.file.add_sliding_window(2 * reach)
    m.file.add_sliding_window_pattern(pattern)


def laya(folder, tokens, layers=5, head=2, wide=32, bases=(160000.0, 10000.0), reach=6, pattern=2):
    """A decision head on ModernBERT: layers that know no positions, of which each row sees all, with biases and ReLU."""
    m = Model(folder, "modern-bert", "modern-bert-laya", 17, layers + head, [FFN] * layers + [wide] * head, 3, gguf.PoolingType.NONE)
    m.file.add_string("modern-bert.decision.type", "laya")
    m.file.add_uint32("modern-bert.decision.block_count", head)
    m.file.add_uint32("modern-bert.decision.max_head_tokens", 48)
    for kind, t in (("choice", 1.5), ("score", 0.8), ("noul", 2.0)):
        m.file.add_float32("modern-bert.decision.temperature." + kind, t)
    windows(m, bases, reach, pattern)
    given = modern(m, tokens, layers, bases, reach, pattern)
    m.new("token_types.weight", 3, WIDTH, spread=0.5)
    for i in range(layers, layers + head):
        at = f"blk.{i}."
        m.norm(at + "attn_norm")
        m.norm(at + "ffn_norm")
        for name, rows, cols in (("attn_qkv", 3 * WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH), ("ffn_up", wide, WIDTH), ("ffn_down", WIDTH, wide)):
            m.linear(at + name, rows, cols)
    m.norm("cls.norm")
    m.linear("cls", WIDTH, WIDTH)
    m.linear("cls.output", 1, WIDTH)
    scores = []
    for kind in range(3):
        x = given + m.tensors["token_types.weight"][kind]
        for i in range(layers, layers + head):
            at = f"blk.{i}."
            q, k, v = np.split(m.times(at + "attn_qkv", m.normed(at + "attn_norm", x)), 3, axis=-1)
            x = x + m.times(at + "attn_output", attend(q, k, v, 0))
            x = x + m.times(at + "ffn_down", np.maximum(m.times(at + "ffn_up", m.normed(at + "ffn_norm", x)), 0))
        y = m.times("cls", m.normed("cls.norm", x))
        y = y * 0.5 * (1 + np.vectorize(math.erf)(y / np.sqrt(2)))
        scores.append(m.times("cls.output", y)[:, 0])
    m.save(np.array(scores), ".scores")


def labels(folder, tokens, bases=(160000.0, 10000.0), reach=6, pattern=3):
    """A classifier on ModernBERT: the mean of all rows, a matrix, GELU, a norm, and a matrix with a row for each label."""
    m = Model(folder, "modern-bert", "modern-bert-labels", 19, pooling=gguf.PoolingType.RANK)
    windows(m, bases, reach, pattern)
    m.file.add_array("modern-bert.classifier.output_labels", ["billing", "technical", "shipping", "other"])
    x = modern(m, tokens, LAYERS, bases, reach, pattern).mean(0, keepdims=True)
    m.linear("cls", WIDTH, WIDTH, bias=False)
    m.new("cls.norm.weight", WIDTH, mean=1, spread=0.2)
    m.linear("cls.output", 4, WIDTH)
    m.save(m.times("cls.output", m.normed("cls.norm", gelu(m.times("cls", x)))), ".scores")


folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
tokens = np.random.default_rng(1).integers(0, VOCAB, TOKENS)
(folder / "tokens.txt").write_text(" ".join(map(str, tokens)) + "\n")
jina(folder, tokens, False)
jina(folder, tokens, True)
nomic(folder, tokens)
laya(folder, tokens)
labels(folder, tokens)
