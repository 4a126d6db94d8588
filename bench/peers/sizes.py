#!/usr/bin/env python3
"""Models of the sizes of published ones, with random weights of the types that their files have: for speed, meaningless as text.

    pip install gguf numpy
    sizes.py FOLDER VOCABULARY.gguf MODEL…   writes FOLDER/MODEL.gguf, with the tokenizer of VOCABULARY.gguf, padded

Models: gemma3-1b, gemma3-4b, gemma4-e2b, qwen3moe (12 of 48 layers of Qwen3-30B-A3B), gpt-oss (8 of 24 layers of gpt-oss-20b), qwen35-0.8b, qwen35-4b,
lfm2-1.2b (a vocabulary of at most 65,536 tokens).
"""
import pathlib, sys
import gguf, numpy as np

Q = gguf.GGMLQuantizationType


def half(x):
    return list(np.array([x], "<f2").tobytes())


def block(kind, spread):
    """A block of a type with scales for weights of this deviation, and the bytes of it that are drawn."""
    match kind:
        case Q.Q4_K:
            return half(spread / 4.6 / 32) + half(spread / 4.6 / 32 * 7.5) + [0xA0] * 8 + [0] * 4 + [0] * 128, [(16, 144)]
        case Q.Q5_K:
            return half(spread / 9.2 / 32) + half(spread / 9.2 / 32 * 15.5) + [0xA0] * 8 + [0] * 4 + [0] * 160, [(16, 176)]
        case Q.Q6_K:
            return [0] * 192 + [64] * 16 + half(spread / 18.5 / 64), [(0, 192)]
        case Q.Q5_0:
            return half(spread / 9.2) + [0] * 20, [(2, 22)]
        case Q.Q8_0:
            return half(spread / 74) + [0] * 32, [(2, 34)]
        case Q.MXFP4:
            return [127 + round(np.log2(spread / 2.9))] + [0] * 16, [(1, 17)]


class Model:
    """A file whose tensors are noted first and drawn at the end, one by one."""

    def __init__(self, file, arch, vocabulary, tokens, layers):
        self.file, self.layers, self.tensors, self.vocabulary = gguf.GGUFWriter(file, arch), layers, [], tokens
        self.arch, self.random = arch, np.random.default_rng(1)
        self.file.add_context_length(32768)
        self.file.add_block_count(layers)
        self.file.add_layer_norm_rms_eps(1e-6)
        self.tokenizer(vocabulary)

    def tokenizer(self, vocabulary):
        fields = {n: f for n, f in gguf.GGUFReader(vocabulary).fields.items() if n.startswith("tokenizer.") and not n.endswith("chat_template")}
        for name, f in fields.items():
            value, kind = f.contents(), f.types[0]
            if kind == gguf.GGUFValueType.ARRAY:
                if name != "tokenizer.ggml.merges":
                    pad = {"tokens": [f"<pad_{i}>" for i in range(self.vocabulary)], "token_type": [5] * self.vocabulary}
                    value = value + pad.get(name.rsplit(".", 1)[1], [-1000.0] * self.vocabulary)[len(value):]
                self.file.add_key_value(name, value, kind, f.types[1])
            else:
                self.file.add_key_value(name, value, kind)

    def sizes(self, width, heads, kv, dim, ffn):
        self.width, self.heads, self.kv, self.dim = width, heads, kv, dim
        f = self.file
        f.add_embedding_length(width)
        f.add_head_count(heads)
        f.add_head_count_kv(kv)
        f.add_key_length(dim)
        f.add_value_length(dim)
        f.add_feed_forward_length(ffn)

    def matrix(self, name, *shape, kind=Q.Q4_K, spread=None):
        """A matrix [rows][columns]; rows that no block of 256 fits have the types that llama.cpp's quantizer takes instead."""
        if shape[-1] % 256 and kind in (Q.Q4_K, Q.Q6_K):
            kind = {Q.Q4_K: Q.Q5_0, Q.Q6_K: Q.Q8_0}[kind]
        self.tensors.append((name + ".weight", shape, kind, spread or 1 / np.sqrt(shape[-1]), 0))

    def floats(self, name, *shape, mean=0.0, spread=0.1):
        self.tensors.append((name, shape, Q.F32, spread, mean))

    def norm(self, name, width, mean=1.0):
        self.floats(name + ".weight", width, mean=mean, spread=0.1 * mean)

    def fine(self, layer):
        """The type of values and of what leads back, in Q4_K_M: half of them are finer."""
        eighth = self.layers // 8
        return Q.Q6_K if layer < eighth or layer >= 7 * self.layers // 8 or (layer - eighth) % 3 == 2 else Q.Q4_K

    def attention(self, at, layer, kinds=None, bias=False, own=True, dim=None, kv=None):
        dim, kv, kinds = dim or self.dim, kv or self.kv, kinds or (Q.Q4_K, self.fine(layer))
        rows = {"attn_q": self.heads * dim} | ({"attn_k": kv * dim, "attn_v": kv * dim} if own else {})
        for name, n in rows.items():
            self.matrix(at + name, n, self.width, kind=kinds[name == "attn_v"])
        self.matrix(at + "attn_output", self.width, self.heads * dim, kind=kinds[0])
        for name, n in (rows | {"attn_output": self.width}).items() if bias else ():
            self.floats(f"{at}{name}.bias", n)

    def head_norms(self, at, dim, own=True):
        for name in ("attn_q_norm", "attn_k_norm")[:1 + own]:
            self.norm(at + name, dim)

    def network(self, at, layer, ffn):
        self.matrix(at + "ffn_gate", ffn, self.width)
        self.matrix(at + "ffn_up", ffn, self.width)
        self.matrix(at + "ffn_down", self.width, ffn, kind=self.fine(layer))

    def experts(self, at, count, ffn, kinds, bias=False):
        self.floats(at + "ffn_gate_inp.weight", count, self.width, spread=1 / np.sqrt(self.width))
        for name, rows, columns, kind in ("gate", ffn, self.width, 0), ("up", ffn, self.width, 0), ("down", self.width, ffn, 1):
            self.matrix(f"{at}ffn_{name}_exps", count, rows, columns, kind=kinds[kind])
            if bias:
                self.floats(f"{at}ffn_{name}_exps.bias", count, rows)
        if bias:
            self.floats(at + "ffn_gate_inp.bias", count)

    def mixture(self, count, used, ffn):
        self.file.add_expert_count(count)
        self.file.add_expert_used_count(used)
        self.file.add_expert_feed_forward_length(ffn)

    def save(self):
        for name, shape, kind, *_ in self.tensors:
            size, length = gguf.GGML_QUANT_SIZES[kind]
            plain = kind == Q.F32
            raw = shape if plain else (*shape[:-1], shape[-1] // size * length)
            self.file.add_tensor_info(name, raw, np.dtype(np.float32 if plain else np.uint8), int(np.prod(raw)) * (4 if plain else 1),
                                      raw_dtype=None if plain else kind)
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_ti_data_to_file()
        for _, shape, kind, spread, mean in self.tensors:
            self.write(shape, kind, spread, mean)
        self.file.close()

    def write(self, shape, kind, spread, mean):
        out = self.file.fout[0]
        self.file.write_padding(out, out.tell())
        if kind in (Q.F32, Q.BF16):
            x = (mean + spread * self.random.standard_normal(shape)).astype("<f4")
            out.write(x if kind == Q.F32 else (x.view("<u4") >> 16).astype("<u2"))
        else:
            fixed, drawn = block(kind, spread)
            count = int(np.prod(shape)) // gguf.GGML_QUANT_SIZES[kind][0]
            for low in range(0, count, 1 << 16):
                b = np.empty((min(1 << 16, count - low), len(fixed)), np.uint8)
                b[:] = fixed
                for start, end in drawn:
                    b[:, start:end] = np.frombuffer(self.random.bytes(len(b) * (end - start)), np.uint8).reshape(len(b), -1)
                out.write(b)
        self.file.write_padding(out, out.tell())


def blocks(m):
    return [(i, f"blk.{i}.") for i in range(m.layers)]


def ends(m, tied, kinds=(Q.Q6_K, Q.Q6_K)):
    m.matrix("token_embd", m.vocabulary, m.width, kind=kinds[0])
    m.norm("output_norm", m.width)
    if not tied:
        m.matrix("output", m.vocabulary, m.width, kind=kinds[1])


def gemma_norms(m, at):
    for name in "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm":
        m.norm(at + name, m.width)


def gemma3(width, heads, kv, ffn, window, scale):
    def write(m):
        m.sizes(width, heads, kv, 256, ffn)
        m.file.add_sliding_window(window)
        m.file.add_rope_freq_base(1e6)
        if scale:
            m.file.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            m.file.add_rope_scaling_factor(scale)
        ends(m, tied=True)
        for i, at in blocks(m):
            gemma_norms(m, at)
            m.attention(at, i)
            m.head_norms(at, 256)
            m.network(at, i, ffn)
    return write


def gemma4_e2b(m):
    own, inputs = 15, 256  # of the 35 layers the last 20 read keys and values of others, and their networks are twice as wide
    ffn = [6144 if i < own else 12288 for i in range(m.layers)]
    local = [(i + 1) % 5 != 0 for i in range(m.layers)]
    m.sizes(1536, 8, 1, 512, ffn)
    f = m.file
    f.add_key_length_swa(256)
    f.add_value_length_swa(256)
    f.add_sliding_window(512)
    f.add_array("gemma4.attention.sliding_window_pattern", local)
    f.add_uint32("gemma4.attention.shared_kv_layers", m.layers - own)
    f.add_uint32("gemma4.embedding_length_per_layer_input", inputs)
    f.add_float32("gemma4.final_logit_softcapping", 30.0)
    f.add_rope_freq_base(1e6)
    f.add_float32("gemma4.rope.freq_base_swa", 1e4)
    f.add_rope_dimension_count(512)
    f.add_uint32("gemma4.rope.dimension_count_swa", 256)
    ends(m, tied=True)
    m.matrix("per_layer_token_embd", m.vocabulary, inputs * m.layers, kind=Q.Q5_K, spread=0.3)
    m.matrix("per_layer_model_proj", inputs * m.layers, m.width, kind=Q.BF16)
    m.norm("per_layer_proj_norm", inputs)
    m.floats("rope_freqs.weight", 256, mean=1.0, spread=0)
    for i, at in blocks(m):
        dim = 256 if local[i] else 512
        gemma_norms(m, at)
        m.attention(at, i, own=i < own, dim=dim)
        m.norm(at + "attn_q_norm", dim, mean=2 / np.sqrt(dim))  # scores are not scaled otherwise
        if i < own:
            m.norm(at + "attn_k_norm", dim)
        m.network(at, i, ffn[i])
        m.matrix(at + "inp_gate", inputs, m.width)
        m.matrix(at + "proj", m.width, inputs)
        m.norm(at + "post_norm", m.width)
        m.floats(at + "layer_output_scale.weight", 1, mean=0.9, spread=0.01)


def qwen3moe(m):
    m.sizes(2048, 32, 4, 128, 6144)
    m.mixture(128, 8, 768)
    m.file.add_rope_freq_base(1e6)
    ends(m, tied=False, kinds=(Q.Q4_K, Q.Q6_K))
    for i, at in blocks(m):
        m.norm(at + "attn_norm", m.width)
        m.norm(at + "ffn_norm", m.width)
        m.attention(at, i)
        m.head_norms(at, m.dim)
        m.experts(at, 128, 768, (Q.Q4_K, m.fine(i)))


def gpt_oss(m):
    m.sizes(2880, 64, 8, 64, 2880)
    m.mixture(32, 4, 2880)
    f = m.file
    f.add_rope_freq_base(150000.0)
    f.add_sliding_window(128)
    f.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    f.add_rope_scaling_factor(32.0)
    f.add_rope_scaling_orig_ctx_len(4096)
    ends(m, tied=False, kinds=(Q.Q8_0, Q.Q8_0))
    for i, at in blocks(m):
        m.norm(at + "attn_norm", m.width)
        m.norm(at + "post_attention_norm", m.width)
        m.attention(at, i, kinds=(Q.Q8_0, Q.Q8_0), bias=True)
        m.floats(at + "attn_sinks.weight", m.heads, spread=1)
        m.experts(at, 32, 2880, (Q.MXFP4, Q.MXFP4), bias=True)


def qwen35(width, heads, kv, ffn, states):
    """Three of four layers keep states: 16 heads of keys, so many of values, 128 wide both."""
    def write(m):
        keys, dim, f = 16, 128, m.file
        m.sizes(width, heads, kv, 256, ffn)
        f.add_rope_freq_base(1e7)
        f.add_rope_dimension_count(64)
        f.add_array("qwen35.rope.dimension_sections", [11, 11, 10, 0])
        for name, n in ("full_attention_interval", 4), ("ssm.conv_kernel", 4), ("ssm.state_size", dim), ("ssm.group_count", keys), \
                ("ssm.time_step_rank", states), ("ssm.inner_size", states * dim):
            f.add_uint32("qwen35." + name, n)
        ends(m, tied=True)
        for i, at in blocks(m):
            m.norm(at + "attn_norm", width)
            m.norm(at + "post_attention_norm", width)
            m.network(at, i, ffn)
            if i % 4 == 3:
                for name, rows, kind in ("attn_q", 2 * heads * 256, Q.Q4_K), ("attn_k", kv * 256, Q.Q4_K), ("attn_v", kv * 256, m.fine(i)):
                    m.matrix(at + name, rows, width, kind=kind)  # each query has a gate beside it
                m.matrix(at + "attn_output", width, heads * 256)
                m.head_norms(at, 256)
                continue
            channels = (2 * keys + states) * dim
            m.matrix(at + "attn_qkv", channels, width, kind=Q.Q5_K)
            m.matrix(at + "attn_gate", states * dim, width)
            m.matrix(at + "ssm_out", width, states * dim)
            m.matrix(at + "ssm_alpha", states, width)
            m.matrix(at + "ssm_beta", states, width)
            m.floats(at + "ssm_conv1d.weight", channels, 4, spread=0.5)
            m.floats(at + "ssm_dt.bias", states, mean=1.0)
            m.floats(at + "ssm_a", states, mean=-1.0)
            m.norm(at + "ssm_norm", dim)
    return write


def lfm2(m):
    kv = [8 * (i in (2, 5, 8, 10, 12, 14)) for i in range(m.layers)]
    m.sizes(2048, 32, kv, 64, 8192)
    m.file.add_rope_freq_base(1e6)
    m.file.add_uint32("lfm2.shortconv.l_cache", 3)
    m.matrix("token_embd", m.vocabulary, m.width, kind=Q.Q6_K)
    m.norm("token_embd_norm", m.width)
    for i, at in blocks(m):
        m.norm(at + "attn_norm", m.width)
        m.norm(at + "ffn_norm", m.width)
        m.network(at, i, 8192)
        if kv[i]:
            m.attention(at, i, kv=kv[i])
            m.head_norms(at, 64)
        else:
            m.matrix(at + "shortconv.in_proj", 3 * m.width, m.width)
            m.matrix(at + "shortconv.out_proj", m.width, m.width)
            m.floats(at + "shortconv.conv.weight", m.width, 3, spread=0.5)


MODELS = {  # architecture, tokens, layers, what writes it
    "gemma3-1b": ("gemma3", 262144, 26, gemma3(1152, 4, 1, 6912, 512, None)),
    "gemma3-4b": ("gemma3", 262144, 34, gemma3(2560, 8, 4, 10240, 1024, 8.0)),
    "gemma4-e2b": ("gemma4", 262144, 35, gemma4_e2b),
    "qwen3moe": ("qwen3moe", 151936, 12, qwen3moe),
    "gpt-oss": ("gpt-oss", 201088, 8, gpt_oss),
    "qwen35-0.8b": ("qwen35", 248320, 24, qwen35(1024, 8, 2, 3584, 16)),
    "qwen35-4b": ("qwen35", 248320, 32, qwen35(2560, 16, 4, 9216, 32)),
    "lfm2-1.2b": ("lfm2", 65536, 16, lfm2),
}

if __name__ == "__main__":
    if len(sys.argv) < 4 or set(sys.argv[3:]) - set(MODELS):
        sys.exit(__doc__)
    for name in sys.argv[3:]:
        arch, tokens, layers, write = MODELS[name]
        model = Model(str(pathlib.Path(sys.argv[1]) / f"{name}.gguf"), arch, sys.argv[2], tokens, layers)
        write(model)
        model.save()
