"""Writes a llama GGUF file anew with superblocks (Q4_K, Q6_K) in every matrix, to measure what rounding activations costs them.

    python3 superblocks.py FILE.gguf Q4_K OUT.gguf     # layers in Q4_K, embeddings in Q6_K

The width is padded with zeros to a multiple of 256, and heads to as many as that makes. Norms are over more values then, of
the same sum of squares: their weights shrink by the root of the ratio and eps by the ratio, so that the model
computes what it did. Scales are the simplest that fit: they are measured against the file's own weights. Needs numpy and gguf.
"""

import sys

import gguf
import numpy as np

BLOCK = 256


def q6k(x):
    """Rows of multiples of 256 floats as Q6_K: 6-bit codes, a signed scale for each 16 and a float16 for all."""
    blocks = x.reshape(-1, 16, 16)
    top = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    scale = top / -32
    most = np.abs(scale).max(-1)
    d = (most / 127).astype(np.float16)
    factor = np.where(d == 0, 1, d).astype(np.float32)[:, None]
    scales = np.rint(scale / factor).clip(-128, 127)
    step = scales * factor
    codes = (np.rint(blocks / np.where(step == 0, 1, step)[..., None]).clip(-32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = codes & 15, codes >> 4
    ql = np.stack([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], 2).reshape(-1, 128)
    qh = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(-1, 64)
    return np.concatenate([ql, qh, scales.astype(np.int8).view(np.uint8), d[:, None].view(np.uint8)], 1)


def q4k(x):
    """As Q4_K: 4-bit codes, a 6-bit scale and minimum for each 32 and a float16 for all of either."""
    blocks = x.reshape(-1, 8, 32)
    least = -np.minimum(blocks.min(-1), 0)
    scale = (blocks.max(-1) + least) / 15
    d, dmin = ((v.max(-1) / 63).astype(np.float16) for v in (scale, least))
    factor, unit = (np.where(v == 0, 1, v).astype(np.float32)[:, None] for v in (d, dmin))
    scales, minima = (np.rint(v / u).clip(0, 63).astype(np.uint8) for v, u in ((scale, factor), (least, unit)))
    step = scales * factor
    codes = np.rint((blocks + (minima * unit)[..., None]) / np.where(step == 0, 1, step)[..., None]).clip(0, 15).astype(np.uint8)
    codes = codes.reshape(-1, 4, 2, 32)
    packed = np.concatenate([
        scales[:, :4] | scales[:, 4:] >> 4 << 6, minima[:, :4] | minima[:, 4:] >> 4 << 6, scales[:, 4:] & 15 | minima[:, 4:] << 4,
    ], 1)
    halves = (codes[:, :, 0] | codes[:, :, 1] << 4).reshape(-1, 128)
    return np.concatenate([d[:, None].view(np.uint8), dmin[:, None].view(np.uint8), packed, halves], 1)


TYPES = {"Q4_K": (gguf.GGMLQuantizationType.Q4_K, q4k), "Q6_K": (gguf.GGMLQuantizationType.Q6_K, q6k)}


def field(f):
    """The value of a field and its types."""
    if f.types[0] == gguf.GGUFValueType.ARRAY:
        return f.contents(), gguf.GGUFValueType.ARRAY, f.types[1]
    return f.contents(), f.types[0], None


def main(source, layers, target):
    r = gguf.GGUFReader(source)
    values = {name: field(f) for name, f in r.fields.items() if not name.startswith("GGUF.")}
    width, heads, kv = (int(values["llama." + n][0]) for n in ("embedding_length", "attention.head_count", "attention.head_count_kv"))
    head = width // heads
    wide = -(-width // BLOCK) * BLOCK
    while wide // head % (heads // kv) or wide % head:
        wide += BLOCK
    sizes = {width: wide, kv * head: wide // heads * kv if wide == width else wide // head // (heads // kv) * head}
    changed = {
        "embedding_length": wide, "attention.head_count": wide // head, "attention.head_count_kv": sizes[kv * head] // head,
        "attention.layer_norm_rms_epsilon": values["llama.attention.layer_norm_rms_epsilon"][0] * width / wide,
    }
    w = gguf.GGUFWriter(target, "llama")
    for name, (value, kind, part) in values.items():
        if name != "general.architecture":
            w.add_key_value(name, changed.get(name.removeprefix("llama."), value), kind, part)
    for t in r.tensors:
        x = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        if x.ndim == 1:
            x = np.pad(x, (0, sizes[len(x)] - len(x))) * np.float32((width / wide) ** 0.5)
            w.add_tensor(t.name, x)
            continue
        x = np.pad(x, [(0, sizes.get(n, n) - n) for n in x.shape])
        kind, code = TYPES["Q6_K" if t.name in ("token_embd.weight", "output.weight") else layers]
        w.add_tensor(t.name, code(x).reshape(x.shape[0], -1), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
