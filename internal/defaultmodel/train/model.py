"""The Llama-shaped network in JAX, as GGUF's `llama` architecture defines it."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import vocabulary


@dataclass(frozen=True)
class Config:
    vocab: int = vocabulary.SIZE
    width: int = 192
    layers: int = 4
    heads: int = 6
    kv_heads: int = 2
    head: int = 32  # all row lengths are multiples of 32, Q8_0's block
    ffn: int = 512
    context: int = 1024  # tokens
    eps: float = 1e-5
    rope_base: float = 10000.0
    coarse: bool = False  # products in bf16: faster, for the first part of training


def init(cfg, seed):
    """Weights by name; every matrix is [layers, out, in], as GGUF rows lie."""
    rng = np.random.default_rng(seed)

    def normal(*shape, scale):
        return jnp.asarray(rng.standard_normal(shape) * scale, jnp.float32)

    w, q, kv, f, n = cfg.width, cfg.heads * cfg.head, cfg.kv_heads * cfg.head, cfg.ffn, cfg.layers
    return {
        "embed": normal(cfg.vocab, w, scale=0.05),
        "attn_q": normal(n, q, w, scale=w**-0.5),
        "attn_k": normal(n, kv, w, scale=w**-0.5),
        "attn_v": normal(n, kv, w, scale=w**-0.5),
        "attn_output": normal(n, w, q, scale=0.3 * q**-0.5),
        "ffn_gate": normal(n, f, w, scale=w**-0.5),
        "ffn_up": normal(n, f, w, scale=w**-0.5),
        "ffn_down": normal(n, w, f, scale=0.3 * f**-0.5),
        "attn_norm": jnp.ones((n, w)),
        "ffn_norm": jnp.ones((n, w)),
        "output_norm": jnp.ones((w,)),
    }


def count(params):
    return sum(int(np.prod(p.shape)) for p in params.values())


def fake_quant(x):
    """x rounded to int8 per 32 values as Q8_0 does; gradients pass through."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = jnp.max(jnp.abs(blocks), axis=-1, keepdims=True) / 127 + 1e-12
    rounded = (jnp.round(blocks / scale) * scale).reshape(x.shape)
    return x + jax.lax.stop_gradient(rounded - x)


@jax.custom_vjp
def coarse_product(x, w):
    """x @ w.T with operands in bf16 and sums in f32, forwards and backwards; processors with bf16 take a fifth less time for a step."""
    return jnp.einsum("...i,oi->...o", x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


def _coarse(x, w):
    x, w = x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)
    return jnp.einsum("...i,oi->...o", x, w, preferred_element_type=jnp.float32), (x, w)


def _coarse_gradients(kept, g):
    x, w = kept
    g = g.astype(jnp.bfloat16)
    return (jnp.einsum("...o,oi->...i", g, w, preferred_element_type=jnp.float32),
            jnp.einsum("no,ni->oi", g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1]), preferred_element_type=jnp.float32))


coarse_product.defvjp(_coarse, _coarse_gradients)


def exact_product(x, w):
    return x @ w.T


def rms_norm(x, weight, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * weight


def rope(x, cos, sin):
    """Turns the pairs (2i, 2i+1) of each head; x is [batch, time, heads, head]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def hidden(cfg, params, tokens, segments, quant):
    """The normalised last hidden state [batch, time, width]. Positions attend to earlier ones of the same
    segment. With quant, weights, activations and KV carry the rounding errors
    that they will have in use."""
    q8 = fake_quant if quant else (lambda x: x)
    product = coarse_product if cfg.coarse else exact_product
    batch, time = tokens.shape
    p = {k: (q8(v) if "norm" not in k else v) for k, v in params.items()}
    angle = jnp.arange(time)[:, None] * cfg.rope_base ** (-jnp.arange(0, cfg.head, 2) / cfg.head)
    cos, sin = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    seen = (segments[:, :, None] == segments[:, None, :]) & jnp.tril(jnp.ones((time, time), bool))
    bias = jnp.where(seen, 0.0, -1e9)[:, None]
    group = cfg.heads // cfg.kv_heads

    x = p["embed"][tokens]
    for i in range(cfg.layers):
        h = q8(rms_norm(x, p["attn_norm"][i], cfg.eps))
        q = product(h, p["attn_q"][i]).reshape(batch, time, cfg.heads, cfg.head)
        k = product(h, p["attn_k"][i]).reshape(batch, time, cfg.kv_heads, cfg.head)
        v = product(h, p["attn_v"][i]).reshape(batch, time, cfg.kv_heads, cfg.head)
        q, k, v = rope(q, cos, sin), q8(rope(k, cos, sin)), q8(v)
        q = q.reshape(batch, time, cfg.kv_heads, group, cfg.head).transpose(0, 2, 3, 1, 4)
        k, v = k.transpose(0, 2, 3, 1)[:, :, None], v.transpose(0, 2, 1, 3)[:, :, None]
        scores = (q @ k) * cfg.head**-0.5 + bias[:, :, None]
        out = (jax.nn.softmax(scores, -1) @ v).transpose(0, 3, 1, 2, 4).reshape(batch, time, -1)
        x = x + product(q8(out), p["attn_output"][i])
        h = q8(rms_norm(x, p["ffn_norm"][i], cfg.eps))
        h = jax.nn.silu(product(h, p["ffn_gate"][i])) * product(h, p["ffn_up"][i])
        x = x + product(q8(h), p["ffn_down"][i])
    return q8(rms_norm(x, p["output_norm"], cfg.eps))


def loss(cfg, params, batch, quant):
    """Weighted mean cross-entropy in nats over the picked positions, then the
    mean over answers alone and the share of answer tokens that greedy decoding
    gets wrong."""
    tokens, segments, picked, target, weights = batch
    x = hidden(cfg, params, tokens, segments, quant)
    x = x.reshape(-1, cfg.width)[picked]
    product = coarse_product if cfg.coarse else exact_product
    logits = product(x, fake_quant(params["embed"]) if quant else params["embed"])
    reached = jnp.take_along_axis(logits, target[:, None], -1)[:, 0]
    nll = jax.nn.logsumexp(logits, -1) - reached
    answer = weights >= 1.0
    wrong = answer & (reached < jnp.max(logits, -1))
    mean = jnp.sum(nll * weights) / jnp.sum(weights)
    return mean, (jnp.sum(nll * answer) / jnp.sum(answer), jnp.sum(wrong) / jnp.sum(answer))
