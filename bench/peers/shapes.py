#!/usr/bin/env python3
"""Tiny language models of random shapes and weights: sizes, windows, patterns and numbers of experts other than those of any reference.

    pip install gguf numpy xllamacpp==2026.10.11549 cffi
    shapes.py FOLDER SEEDS [ARCHITECTURE…]      writes ARCHITECTURE-SEED.gguf and tokens.txt
    llamacpp.py logits FOLDER FOLDER/*.gguf     what llama.cpp makes of them
    go test ./engine/llm -run TestShapesMatchLlamaCpp -shapes FOLDER -v
"""
import pathlib, sys
import gguf, numpy as np

VOCABULARY, TOKENS = 96, 300


class Shape:
    """What all families have: sizes drawn by a seed, tensors by name."""

    def __init__(self, folder, arch, seed):
        self.random, self.arch = np.random.default_rng(seed), arch
        self.file = gguf.GGUFWriter(str(folder / f"{arch}-{seed}.gguf"), arch)
        self.width, self.layers, self.heads = self.one(64, 96, 128), int(self.random.integers(3, 10)), self.one(2, 4, 6)
        self.kv = self.one(*self.divisors(self.heads))
        self.dim, self.ffn, self.window = self.one(16, 32, 64), self.one(64, 96, 160), self.one(5, 8, 20, 33, 64, 100, 130, 200)
        f = self.file
        f.add_tokenizer_model("no_vocab")
        f.add_vocab_size(VOCABULARY)
        f.add_context_length(512)
        f.add_embedding_length(self.width)
        f.add_block_count(self.layers)
        f.add_head_count(self.heads)
        f.add_layer_norm_rms_eps(float(self.one(1e-6, 1e-5)))
        f.add_feed_forward_length(self.ffn)
        f.add_key_length(self.dim)
        f.add_value_length(self.dim)
        scaled = arch.startswith("gemma")  # these multiply embeddings by the root of the width
        self.tensor("token_embd.weight", VOCABULARY, self.width, spread=1 / np.sqrt(self.width) if scaled else 1)
        self.norm("output_norm", self.width)

    def one(self, *of):
        return of[self.random.integers(len(of))]

    def divisors(self, n):
        return [k for k in range(1, n + 1) if n % k == 0]

    def tensor(self, name, *shape, mean=0.0, spread=None):
        spread = 1.2 / np.sqrt(shape[-1]) if spread is None else spread
        self.file.add_tensor(name, (mean + spread * self.random.standard_normal(shape)).astype(np.float32))

    def norm(self, name, width, mean=1.0):
        self.tensor(name + ".weight", width, mean=mean, spread=0.2 * mean)

    def linear(self, name, rows, columns, bias=False):
        self.tensor(name + ".weight", rows, columns)
        if bias:
            self.tensor(name + ".bias", rows, spread=0.2)

    def attention(self, at, dim, kv, bias=False, values=True):
        self.linear(at + "attn_q", self.heads * dim, self.width, bias)
        self.linear(at + "attn_output", self.width, self.heads * dim, bias)
        if kv:
            self.linear(at + "attn_k", kv * dim, self.width, bias)
        if kv and values:
            self.linear(at + "attn_v", kv * dim, self.width, bias)

    def network(self, at):
        self.linear(at + "ffn_gate", self.ffn, self.width)
        self.linear(at + "ffn_up", self.ffn, self.width)
        self.linear(at + "ffn_down", self.width, self.ffn)

    def count_experts(self, count):
        self.experts, self.expert_ffn = count, self.one(32, 48, 64)
        self.file.add_expert_count(count)
        self.file.add_expert_used_count(self.one(1, 2, 3))
        self.file.add_expert_feed_forward_length(self.expert_ffn)

    def mixture(self, at, bias=False):
        self.linear(at + "ffn_gate_inp", self.experts, self.width, bias)
        for name, rows, columns in ("gate", self.expert_ffn, self.width), ("up", self.expert_ffn, self.width), ("down", self.width, self.expert_ffn):
            self.tensor(f"{at}ffn_{name}_exps.weight", self.experts, rows, columns, spread=2 / np.sqrt(columns))
            if bias:
                self.tensor(f"{at}ffn_{name}_exps.bias", self.experts, rows, spread=0.3)

    def close(self):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()


def blocks(m):
    return [f"blk.{i}." for i in range(m.layers)]


def qwen3moe(m):
    m.file.add_head_count_kv(m.kv)
    m.count_experts(m.one(4, 8, 9))
    m.file.add_rope_freq_base(1e6)
    m.tensor("output.weight", VOCABULARY, m.width)
    for at in blocks(m):
        m.norm(at + "attn_norm", m.width)
        m.norm(at + "ffn_norm", m.width)
        m.norm(at + "attn_q_norm", m.dim)
        m.norm(at + "attn_k_norm", m.dim)
        m.attention(at, m.dim, m.kv)
        m.mixture(at)


def local_base(m):
    """Half of the files say by which base layers with a window turn."""
    if m.random.random() < 0.5:
        m.file.add_float32(m.arch + ".rope.freq_base_swa", m.one(1e4, 5e4))


def gpt_oss(m):
    f = m.file
    f.add_head_count_kv(m.kv)
    m.count_experts(m.one(4, 8, 9))
    f.add_rope_freq_base(150000.0)
    f.add_sliding_window(m.window)
    local_base(m)
    f.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    f.add_rope_scaling_factor(32.0)
    f.add_rope_scaling_orig_ctx_len(m.one(64, 4096))
    m.tensor("output.weight", VOCABULARY, m.width)
    for at in blocks(m):
        m.norm(at + "attn_norm", m.width)
        m.norm(at + "post_attention_norm", m.width)
        m.attention(at, m.dim, m.kv, bias=True)
        m.tensor(at + "attn_sinks.weight", m.heads, spread=1.5)
        m.mixture(at, bias=True)


def gemma_norms(m, at):
    for name in "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm":
        m.norm(at + name, m.width)


def gemma2(m):
    local_base(m)
    m.file.add_attn_logit_softcapping(float(m.one(20, 50)))
    m.file.add_final_logit_softcapping(30.0)
    windowed_gemma(m, 1e4)


def gemma3(m):
    if m.random.random() < 0.5:
        m.file.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        m.file.add_rope_scaling_factor(8.0)
    local_base(m)
    windowed_gemma(m, 1e6)


def windowed_gemma(m, base):
    m.file.add_head_count_kv(m.kv)
    m.file.add_sliding_window(m.window)
    m.file.add_rope_freq_base(base)
    for at in blocks(m):
        gemma_norms(m, at)
        m.attention(at, m.dim, m.kv)
        if m.arch == "gemma3":
            m.norm(at + "attn_q_norm", m.dim)
            m.norm(at + "attn_k_norm", m.dim)
        m.network(at)


def gemma4(m):
    f, local_dim, inputs = m.file, m.one(16, 32, 64), m.one(0, 16, 24)
    local, shared = gemma4_pattern(m)
    whole_kv = m.one(*m.divisors(m.heads))
    kv = [m.kv if l else whole_kv for l in local]
    own_values = m.random.random() < 0.6  # of layers without a window; the others take them from keys
    f.add_head_count_kv(kv)
    f.add_key_length_swa(local_dim)
    f.add_value_length_swa(local_dim)
    f.add_sliding_window(m.window)
    f.add_array("gemma4.attention.sliding_window_pattern", local)
    f.add_uint32("gemma4.attention.shared_kv_layers", shared)
    f.add_uint32("gemma4.embedding_length_per_layer_input", inputs)
    f.add_float32("gemma4.final_logit_softcapping", 30.0)
    f.add_rope_freq_base(1e6)
    f.add_float32("gemma4.rope.freq_base_swa", 1e4)
    f.add_rope_dimension_count(m.dim)
    f.add_uint32("gemma4.rope.dimension_count_swa", local_dim)
    if experts := m.one(0, 0, 4, 8):
        m.count_experts(experts)
    turned = np.full(m.dim // 2, 1e30, np.float32)
    turned[:max(1, m.dim // 8)] = 1
    f.add_tensor("rope_freqs.weight", turned)
    if inputs:
        m.tensor("per_layer_token_embd.weight", VOCABULARY, inputs * m.layers, spread=0.3)
        m.linear("per_layer_model_proj", inputs * m.layers, m.width)
        m.norm("per_layer_proj_norm", inputs)
    for i, at in enumerate(blocks(m)):
        dim, own = local_dim if local[i] else m.dim, i < m.layers - shared
        gemma_norms(m, at)
        m.attention(at, dim, kv[i] if own else 0, values=local[i] or own_values)
        m.norm(at + "attn_q_norm", dim, mean=2 / np.sqrt(dim))  # scores are not scaled otherwise
        if own:
            m.norm(at + "attn_k_norm", dim)
        m.network(at)
        if inputs:
            m.linear(at + "inp_gate", inputs, m.width)
            m.linear(at + "proj", m.width, inputs)
            m.norm(at + "post_norm", m.width)
        m.tensor(at + "layer_output_scale.weight", 1, mean=0.9, spread=0.1)
        if experts:
            gemma4_experts(m, at)


def gemma4_pattern(m):
    """Which layers have windows, and how many at the end read keys and values of the last two with their own: a local and a whole one."""
    period = m.one(2, 3, 6)
    local = [(i + 1) % period != 0 for i in range(m.layers)] if m.random.random() < 0.5 else [bool(x) for x in m.random.integers(0, 2, m.layers)]
    local[0], local[-1] = True, False
    shared = int(m.random.integers(1, m.layers - 2)) if m.layers >= 4 and m.random.random() < 0.6 else 0
    if shared:
        local[m.layers - shared - 2], local[m.layers - shared - 1] = True, False
    return local, shared


def gemma4_experts(m, at):
    m.tensor(at + "ffn_gate_inp.weight", m.experts, m.width)
    m.tensor(at + "ffn_gate_inp.scale", m.width, mean=1, spread=0.2)
    for name in "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2":
        m.norm(at + name, m.width)
    m.tensor(at + "ffn_gate_up_exps.weight", m.experts, 2 * m.expert_ffn, m.width)
    m.tensor(at + "ffn_down_exps.weight", m.experts, m.width, m.expert_ffn)
    m.tensor(at + "ffn_down_exps.scale", m.experts, mean=1, spread=0.2)


FAMILIES = {"qwen3moe": qwen3moe, "gpt-oss": gpt_oss, "gemma2": gemma2, "gemma3": gemma3, "gemma4": gemma4}

if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    to, unknown = pathlib.Path(sys.argv[1]), set(sys.argv[3:]) - set(FAMILIES)
    if unknown:
        sys.exit(f"shapes.py: no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    to.mkdir(exist_ok=True)
    for arch in sys.argv[3:] or FAMILIES:
        for seed in range(int(sys.argv[2])):
            model = Shape(to, arch, seed)
            FAMILIES[arch](model)
            model.close()
    (to / "tokens.txt").write_text(" ".join(str(t) for t in np.random.default_rng(5).integers(0, VOCABULARY, TOKENS)))
