"""Asks the finished GGUF every question and compares the answers word for word.

It shares no code with the training: the file is read with the gguf package, the
network runs in numpy, prompts come from the file's own chat template and
vocabulary. Three runs: the dequantised weights in F32; activations rounded to
int8 per 32 values with an F16 cache, as integer kernels do; and the same with a
Q8_0 cache.

    python verify.py --gguf ../weir-default.gguf --questions ../questions.jsonl
"""

import argparse
import json
import random
import time
from collections import defaultdict

import gguf
import jinja2
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import corpus


class Model:
    """A llama-architecture GGUF in numpy."""

    def __init__(self, path):
        r = gguf.GGUFReader(path)
        self.kv = {k: f.contents() for k, f in r.fields.items()}
        arch = "llama."
        self.layers, self.heads = self.kv[arch + "block_count"], self.kv[arch + "attention.head_count"]
        self.kv_heads, self.head = self.kv[arch + "attention.head_count_kv"], self.kv[arch + "rope.dimension_count"]
        self.eps, self.context = self.kv[arch + "attention.layer_norm_rms_epsilon"], self.kv[arch + "context_length"]
        self.w = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in r.tensors}
        self.types = {t.name: t.tensor_type.name for t in r.tensors}
        self.parameters = sum(int(np.prod(t.shape)) for t in r.tensors)
        freq = self.kv[arch + "rope.freq_base"] ** (-np.arange(0, self.head, 2) / self.head)
        angle = np.arange(self.context)[:, None] * freq
        self.cos, self.sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def tokenizer(self):
        vocab = {t: i for i, t in enumerate(self.kv["tokenizer.ggml.tokens"])}
        merges = [tuple(m.split(" ")) for m in self.kv["tokenizer.ggml.merges"]]
        tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        tok.decoder = decoders.ByteLevel()
        tok.add_special_tokens([t for t, k in zip(vocab, self.kv["tokenizer.ggml.token_type"]) if k == 3])
        return tok


def q8(x):
    """x rounded to int8 per 32 values with an F16 scale."""
    b = x.reshape(*x.shape[:-1], -1, 32)
    top = np.abs(b).max(-1, keepdims=True)
    inverse = np.where(top > 0, 127 / np.where(top > 0, top, 1), 0)
    return (np.round(b * inverse) * (top / 127).astype(np.float16).astype(np.float32)).reshape(x.shape)


def same(x):
    return x


def f16(x):
    return x.astype(np.float16).astype(np.float32)


MODES = {"f32": (same, same), "int8 activations, f16 cache": (q8, f16), "int8 activations, q8_0 cache": (q8, q8)}


class Batch:
    """Sequences of equal prompt length decoded together."""

    def __init__(self, model, count, capacity, mode):
        self.m, self.act, self.store = model, *MODES[mode]
        shape = (model.layers, count, model.kv_heads, capacity, model.head)
        self.k, self.v, self.at = np.zeros(shape, np.float32), np.zeros(shape, np.float32), 0

    def rotate(self, x, n):
        """x is [count, heads, n, head]; positions start at self.at."""
        cos, sin = self.m.cos[self.at : self.at + n], self.m.sin[self.at : self.at + n]
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    def norm(self, x, name):
        m = self.m
        return self.act(x / np.sqrt((x * x).mean(-1, keepdims=True) + m.eps) * m.w[name])

    def attend(self, i, h):
        m, (count, n, _) = self.m, h.shape

        def project(name, heads):
            return (h @ m.w[f"blk.{i}.{name}.weight"].T).reshape(count, n, heads, m.head).swapaxes(1, 2)

        now = slice(self.at, self.at + n)
        self.k[i][:, :, now] = self.store(self.rotate(project("attn_k", m.kv_heads), n))
        self.v[i][:, :, now] = self.store(project("attn_v", m.kv_heads))
        q = self.rotate(project("attn_q", m.heads), n).reshape(count, m.kv_heads, -1, n, m.head)
        k, v = self.k[i][:, :, None, : self.at + n], self.v[i][:, :, None, : self.at + n]
        scores = q @ k.swapaxes(-1, -2) * m.head**-0.5
        scores = np.where(np.arange(self.at + n) <= np.arange(self.at, self.at + n)[:, None], scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        out = (p / p.sum(-1, keepdims=True)) @ v
        return out.reshape(count, m.heads, n, m.head).swapaxes(1, 2).reshape(count, n, -1)

    def step(self, ids):
        """Feeds ids [count, n]; gives the logits after the last one."""
        m = self.m
        x = m.w["token_embd.weight"][ids]
        for i in range(m.layers):
            out = self.attend(i, self.norm(x, f"blk.{i}.attn_norm.weight"))
            x = x + self.act(out) @ m.w[f"blk.{i}.attn_output.weight"].T
            h = self.norm(x, f"blk.{i}.ffn_norm.weight")
            gate, up = h @ m.w[f"blk.{i}.ffn_gate.weight"].T, h @ m.w[f"blk.{i}.ffn_up.weight"].T
            x = x + self.act(gate / (1 + np.exp(-gate)) * up) @ m.w[f"blk.{i}.ffn_down.weight"].T
        self.at += ids.shape[1]
        return self.norm(x[:, -1], "output_norm.weight") @ m.w["token_embd.weight"].T


def greedy(model, prompts, mode, limit=110, width=256):
    """Decodes each prompt until the end token; gives (ids, smallest gap between
    the best and the second logit) in the order of prompts."""
    eos, out = model.kv["tokenizer.ggml.eos_token_id"], [None] * len(prompts)
    groups = defaultdict(list)
    for i, p in enumerate(prompts):
        groups[len(p)].append(i)
    for length, members in groups.items():
        for start in range(0, len(members), width):
            part = members[start : start + width]
            for i, answer in zip(part, decode(model, [prompts[i] for i in part], mode, min(limit, model.context - length), eos)):
                out[i] = answer
    return out


def decode(model, prompts, mode, limit, eos):
    b = Batch(model, len(prompts), len(prompts[0]) + limit, mode)
    ids, margin = [[] for _ in prompts], np.full(len(prompts), np.inf)
    live, feed = np.ones(len(prompts), bool), np.array(prompts)
    for _ in range(limit):
        logits = b.step(feed)
        best = logits.argmax(-1)
        two = np.partition(logits, -2, -1)[:, -2:]
        margin = np.where(live, np.minimum(margin, two[:, 1] - two[:, 0]), margin)
        for i in np.flatnonzero(live):
            ids[i].append(int(best[i]))
        live &= best != eos
        if not live.any():
            break
        feed = best[:, None]
    return list(zip(ids, margin))


class Examiner:
    def __init__(self, model):
        self.m, self.tok = model, model.tokenizer()
        env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        self.template = env.from_string(model.kv["tokenizer.chat_template"])
        self.eos = model.kv["tokenizer.ggml.eos_token_id"]

    def prompt(self, messages):
        messages = [{"role": r, "content": c} for r, c in messages]
        text = self.template.render(messages=messages, add_generation_prompt=True)
        return self.tok.encode(text, add_special_tokens=False).ids

    def ask(self, cases, mode):
        """cases are (messages, answer); gives the wrong ones and the smallest
        margin over the right ones."""
        answers = greedy(self.m, [self.prompt(m) for m, _ in cases], mode)
        wrong, margins = [], []
        for (messages, want), (ids, margin) in zip(cases, answers):
            done = ids[-1] == self.eos
            text = self.tok.decode(ids[: len(ids) - done])
            if done and text == want:
                margins.append(float(margin))
            else:
                wrong.append({"messages": messages, "want": want, "have": text})
        return wrong, margins


def cases_of(items):
    return [(it.history + [("user", q)], it.answer) for it in items for q in it.questions]


def long_conversations(count, turns):
    """Conversations of many turns; the last answer of each is checked."""
    out = []
    for i in range(count):
        s, told, talk = corpus.Sampler(random.Random(1000 + i)), {}, []
        for _ in range(turns):
            talk += s.turns(told)
        out.append((talk[:-1], talk[-1][1]))
    return out


def exams():
    items, rng = corpus.check_items(), random.Random(5)
    exams = {"training questions": cases_of(items)}
    exams["the same, as typed without care"] = [
        (it.history + [("user", v)], it.answer)
        for it in corpus.fact_items()
        for q in it.questions
        for v in {q.lower(), q.rstrip("?.!"), q.lower().rstrip("?.!")} - {q}
    ]
    exams["after a system prompt"] = [
        ([("system", rng.choice(corpus.SYSTEM_PROMPTS)), ("user", q)], it.answer) for it in corpus.fact_items() for q in it.questions[:2]
    ]
    exams["last of 4 turns"] = long_conversations(200, 4)
    exams["last of 15 turns"] = long_conversations(60, 15)
    exams["unknown questions, never trained"] = [([("user", q)], corpus.FALLBACK) for q in corpus.held_out_unknown(rng)]
    return exams


def load_questions(path):
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [([(m["role"], m["content"]) for m in r.get("history", [])] + [("user", q)], r["answer"]) for r in rows for q in r["questions"]]


def write_questions(path):
    """The questions that become tests: all about weir, each sum once in
    changing words, the conversations and a part of the unknown ones."""
    with open(path, "w", encoding="utf-8") as f:
        for n, it in enumerate(corpus.check_items()):
            questions = it.questions
            if it.topic in ("add", "subtract", "multiply", "divide"):
                questions = [questions[n % len(questions)]]
            elif it.topic in ("unknown", "out of range"):
                questions = questions[:150]
            row = {"topic": it.topic}
            if it.history:
                row["history"] = [{"role": r, "content": c} for r, c in it.history]
            row |= {"questions": questions, "answer": it.answer}
            f.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gguf", default="../weir-default.gguf")
    ap.add_argument("--questions", default="../questions.jsonl")
    ap.add_argument("--write-questions", action="store_true")
    ap.add_argument("--report", default="report.json")
    ap.add_argument("--show", type=int, default=5, help="wrong answers to print per exam")
    ap.add_argument("--modes", default="all", help="f32, or all")
    args = ap.parse_args()
    if args.write_questions:
        write_questions(args.questions)

    model = Model(args.gguf)
    ex, report = Examiner(model), {"parameters": model.parameters, "results": {}}
    todo = {"questions.jsonl": load_questions(args.questions), **exams()}
    for mode in list(MODES) if args.modes == "all" else ["f32"]:
        for name, cases in todo.items():
            start = time.time()
            wrong, margins = ex.ask(cases, mode)
            low = min(margins, default=0.0)
            print(f"{mode}: {name}: {len(cases) - len(wrong)} of {len(cases)}, smallest margin {low:.2f} ({time.time() - start:.0f} s)", flush=True)
            for w in wrong[: args.show]:
                print("   ", w["messages"][-2:], "\n      have", w["have"], "\n      want", w["want"])
            report["results"].setdefault(mode, {})[name] = {"right": len(cases) - len(wrong), "of": len(cases), "smallest_margin_logits": round(low, 3)}
    with open(args.report, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
