"""Writes the golden vectors of the weight types: NAME.quant.bin per type.

Each file holds random blocks of the type, then the float32 values (little
endian) that the Python package gguf decodes them to. The blocks of formats
with float16 scales get scales of a model's range, and also zero, negative,
subnormal and the largest ones. The numbers come from a fixed seed: running it
again gives the same bytes.

    pip install gguf==0.19.0 numpy
    python quant.py
"""

import pathlib

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

HERE = pathlib.Path(__file__).parent

# Type, byte offsets of its float16 scales.
TYPES = [
    (T.F32, []), (T.F16, []), (T.BF16, []),
    (T.Q8_0, [0]), (T.Q4_0, [0]), (T.Q4_1, [0, 2]), (T.Q5_0, [0]), (T.Q5_1, [0, 2]),
    (T.Q2_K, [80, 82]), (T.Q3_K, [108]), (T.Q4_K, [0, 2]), (T.Q5_K, [0, 2]), (T.Q6_K, [208]),
    (T.IQ4_NL, [0]), (T.IQ4_XS, [0]), (T.MXFP4, []),
]
SPECIAL = np.array([0.0, -0.0, 5.96e-8, -6.0e-5, 6.1e-5, 1.0, -1.0, 65504.0], dtype=np.float16)


def blocks(rng, qtype, offsets):
    """Random blocks, one row each: 8 with special scales, then ordinary ones."""
    _, size = GGML_QUANT_SIZES[qtype]
    if qtype == T.F32:
        return rng.normal(0, 0.02, (64, 1)).astype(np.float32).view(np.uint8)
    if qtype == T.BF16:
        raw = rng.integers(0, 1 << 16, 256, dtype=np.uint16)
        return raw[(raw & 0x7F80) != 0x7F80].reshape(-1, 1).view(np.uint8)
    if qtype == T.F16:
        raw = rng.integers(0, 1 << 16, 256, dtype=np.uint16)
        return raw[(raw & 0x7C00) != 0x7C00].reshape(-1, 1).view(np.uint8)
    count = 24 if size > 40 else 40
    out = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in offsets:
        scales = rng.normal(0, 0.003, count).astype(np.float16)
        scales[: len(SPECIAL)] = rng.permutation(SPECIAL)
        out[:, offset : offset + 2] = scales.view(np.uint8).reshape(count, 2)
    if qtype == T.MXFP4:
        out[:8, 0] = [0, 1, 2, 3, 127, 128, 253, 254]
        out[8:, 0] = rng.integers(110, 130, count - 8)
    return out


def main():
    rng = np.random.default_rng(20240817)
    for qtype, offsets in TYPES:
        raw = blocks(rng, qtype, offsets)
        with np.errstate(over="ignore"):
            values = dequantize(raw.reshape(-1), qtype).astype("<f4")
        assert not np.isnan(values).any(), qtype.name
        (HERE / f"{qtype.name}.quant.bin").write_bytes(raw.tobytes() + values.tobytes())

    # What quantising to Q8_0 gives: float32 values first, then the blocks.
    x = rng.normal(0, 1, (32, 32)).astype(np.float32) * np.float32(10) ** rng.integers(-6, 4, (32, 1)).astype(np.float32)
    x[0] = 0
    x[1, :] = np.linspace(-127, 127, 32).round() * 0.5  # halves: ties of the rounding
    x[1, 0], x[1, 5] = 127, -127
    (HERE / "Q8_0.encode.bin").write_bytes(x.tobytes() + quantize(x, T.Q8_0).tobytes())


main()
