"""Trains weir's default model from scratch on one CPU.

    python train.py            # about an hour on two cores
    python train.py --steps 60 # a short run that checks the whole pipeline

It writes the vocabulary, checkpoints and loss.csv to --out; export.py makes the
GGUF from there and verify.py checks it.
"""

import argparse
import csv
import os
import random
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import corpus
import model
import tasks
import vocabulary

MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def pack(encoder, sampler, rows, length, whole=False):
    """A batch of whole conversations, several to a row: tokens and segment
    numbers [rows, length], and for the loss the flat positions that are
    looked at, their next tokens and weights. A conversation longer than a row
    loses its end, never its beginning; with whole it is left out."""
    tokens = np.zeros((rows, length + 1), np.int32)
    segments = np.full((rows, length + 1), -1, np.int32)
    weights = np.zeros((rows, length + 1), np.float32)
    used, parts = [0] * rows, [0] * rows
    misses = 0
    while misses < 8:
        kind = sampler.rng.random()
        if kind < 0.04:
            ids, w = encoder.document(sampler.document())
        elif kind < 0.04 + sampler.copies:
            ids, w = encoder.copies(sampler.rng, sampler.words())
        else:
            ids, w = encoder.conversation(sampler.conversation())
        if whole and len(ids) > length + 1:
            continue
        ids, w = ids[: length + 1], w[: length + 1]
        free = [r for r in range(rows) if used[r] + len(ids) <= length + 1]
        if not free:
            misses += 1
            continue
        r = max(free, key=lambda i: used[i])  # best fit
        at = slice(used[r], used[r] + len(ids))
        tokens[r, at], weights[r, at], segments[r, at] = ids, w, parts[r]
        used[r] += len(ids)
        parts[r] += 1
    same = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] >= 0)
    return tokens[:, :-1], segments[:, :-1], *pick(tokens[:, 1:], weights[:, 1:] * same, np.random.default_rng(int(tokens.sum())))


def pick(target, weights, rng):
    """The positions whose logits are computed: all of answers and documents,
    and as many others as fit into a fixed count."""
    target, weights = target.ravel(), weights.ravel()
    order = np.argsort(-weights - 1e-3 * rng.random(weights.size), kind="stable")[: weights.size * 11 // 16]
    return order.astype(np.int32), target[order], weights[order]


def orthogonal(g):
    """The nearest matrix with equal singular values, by five Newton-Schulz
    steps (Muon; Jordan et al. 2024). g is [layers, out, in]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    flip = g.shape[-2] > g.shape[-1]
    x = g.swapaxes(-1, -2) if flip else g
    x = x / (jnp.linalg.norm(x, axis=(-2, -1), keepdims=True) + 1e-7)
    for _ in range(5):
        s = x @ x.swapaxes(-1, -2)
        x = a * x + (b * s + c * s @ s) @ x
    return x.swapaxes(-1, -2) if flip else x


def update(params, grads, m, v, step, lr):
    """One step of Muon for the matrices and of Adam for the rest."""
    new_p, new_m, new_v = {}, {}, {}
    for k, g in grads.items():
        if k in MATRICES:
            new_m[k] = 0.95 * m[k] + g
            d = orthogonal(g + 0.95 * new_m[k]) * max(1.0, g.shape[-2] / g.shape[-1]) ** 0.5
            new_v[k] = v[k]
            new_p[k] = params[k] - lr * (5.0 * d + 0.03 * params[k])
            continue
        new_m[k] = 0.9 * m[k] + 0.1 * g
        new_v[k] = 0.98 * v[k] + 0.02 * g * g
        d = (new_m[k] / (1 - 0.9 ** (step + 1))) / (jnp.sqrt(new_v[k] / (1 - 0.98 ** (step + 1))) + 1e-8)
        new_p[k] = params[k] - lr * d
    return new_p, new_m, new_v


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3, 4))
def train_step(cfg, quant, params, m, v, batch, step, lr):
    grads, (answer, wrong) = jax.grad(lambda p: model.loss(cfg, p, batch, quant), has_aux=True)(params)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads.values()))
    grads = {k: g * jnp.minimum(1.0, 1.0 / norm) for k, g in grads.items()}
    params, m, v = update(params, grads, m, v, step, lr)
    return params, m, v, answer, wrong


@partial(jax.jit, static_argnums=0)
def lead(cfg, params, tokens, segments):
    """By how much each next token's logit leads all others [rows, length-1]."""
    x = model.hidden(cfg, params, tokens[:, :-1], segments[:, :-1], True)
    logits = x @ model.fake_quant(params["embed"]).T
    target = tokens[:, 1:, None]
    reached = jnp.take_along_axis(logits, target, -1)[..., 0]
    others = jnp.where(jnp.arange(cfg.vocab) == target, -jnp.inf, logits)
    return reached - jnp.max(others, -1)


def weak_questions(cfg, params, encoder, least=1.0, rows=16, length=256):
    """The (item, question) pairs of the exam that the model gets wrong, or
    right with a lead of less than `least` logits."""
    asked = [(it, q, *encoder.conversation(it.history + [(it.role, q), ("assistant", it.answer)])) for it in tasks.check_items() for q in it.questions]
    asked.sort(key=lambda a: len(a[2]))
    out = []
    while asked:
        tokens, segments, places = np.zeros((rows, length), np.int32), np.full((rows, length), -1, np.int32), []
        for r in range(rows):
            at, part = 0, 0
            while asked and at + len(asked[-1][2]) <= length:
                it, q, ids, weights = asked.pop()
                span = slice(at, at + len(ids))
                tokens[r, span], segments[r, span] = ids, part
                begin = len(encoder.conversation(it.history + [(it.role, q)])[0])
                counts = np.zeros(length - 1, bool)  # what the answer says, and its end
                counts[at + begin - 1 : at + len(ids) - 1] = np.array(weights[begin:]) >= encoder.ANSWER
                places.append((it, q, r, counts))
                at, part = at + len(ids), part + 1
            if asked and len(asked[-1][2]) > length:
                asked.pop()  # longer than any row: only conversations that repeat a long answer
        leads = np.asarray(lead(cfg, params, tokens, segments))
        out += [(it, q) for it, q, r, counts in places if leads[r, counts].min() < least]
    return out


def learning_rate(step, steps, peak):
    """Warm-up over 40 steps, flat, then straight to zero over the last half."""
    return peak * min(1.0, (step + 1) / 40, 2 * (steps - step) / steps)


def phase(step, steps, args):
    """(rows, row length, quantisation noise, conversation lengths) of a step.
    Short talks come first, because they are cheap; the last part sees whole
    contexts, so that late turns work too."""
    done = step / steps
    if done < 0.35:
        return args.batch_tokens // 128, 128, False, (0.6, 0.2, 0.15, 0.05)
    if done < 0.85:
        return args.batch_tokens // 256, 256, done >= 0.7, (0.4, 0.2, 0.1, 0.3)
    length = 512 if done < 0.95 else 1024
    return max(1, args.batch_tokens // length), length, True, (0.25, 0.15, 0.1, 0.5)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="out")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch-tokens", type=int, default=4096)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)

    rng = random.Random(args.seed)
    tok = vocabulary.learn(corpus.tokenizer_texts(random.Random(args.seed)))
    tok.save(f"{args.out}/tokenizer.json")
    encoder, sampler = vocabulary.Encoder(tok), tasks.Sampler(rng)

    cfg = model.Config()
    params = model.init(cfg, args.seed)
    m = {k: jnp.zeros_like(p) for k, p in params.items()}
    v = {k: jnp.zeros_like(p) for k, p in params.items()}
    print(f"{model.count(params)} parameters, {args.steps} steps", flush=True)

    start, seen = time.time(), 0
    with open(f"{args.out}/loss.csv", "w", newline="") as f:
        log = csv.writer(f)
        log.writerow(["step", "tokens", "answer_loss_nats", "wrong_tokens_share", "learning_rate", "seconds"])
        for step in range(args.steps):
            rows, length, quant, sampler.turn_weights = phase(step, args.steps, args)
            batch = pack(encoder, sampler, rows, length)
            seen += int((batch[1] >= 0).sum())
            lr = learning_rate(step, args.steps, args.lr)
            params, m, v, answer, wrong = train_step(cfg, quant, params, m, v, batch, step, lr)
            if step % 10 == 9 or step == args.steps - 1:
                row = [step + 1, seen, f"{float(answer):.5f}", f"{float(wrong):.5f}", f"{lr:.6f}", f"{time.time() - start:.0f}"]
                log.writerow(row)
                f.flush()
                print(*row, flush=True)
            if step % 100 == 99 or step == args.steps - 1:
                np.savez(f"{args.out}/weights.npz", **{k: np.asarray(p) for k, p in params.items()})


if __name__ == "__main__":
    main()
