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
import os
import random
import time

import gguf
import jinja2
import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import corpus
import tasks


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
        self.eos = self.kv["tokenizer.ggml.eos_token_id"]
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
        kinds = self.kv["tokenizer.ggml.token_type"]
        tok.add_special_tokens([t for t, k in zip(vocab, kinds) if k == 3])
        tok.add_tokens([AddedToken(t, normalized=False, special=False) for t, k in zip(vocab, kinds) if k == 4])
        return tok


def plain(token):
    """The text of a token as the vocabulary writes it."""
    return decoders.ByteLevel().decode([token])


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

    def states(self, ids):
        """Feeds ids [count, n]; gives the last hidden states [count, n, width]."""
        m = self.m
        x = m.w["token_embd.weight"][ids]
        for i in range(m.layers):
            out = self.attend(i, self.norm(x, f"blk.{i}.attn_norm.weight"))
            x = x + self.act(out) @ m.w[f"blk.{i}.attn_output.weight"].T
            h = self.norm(x, f"blk.{i}.ffn_norm.weight")
            gate, up = h @ m.w[f"blk.{i}.ffn_gate.weight"].T, h @ m.w[f"blk.{i}.ffn_up.weight"].T
            x = x + self.act(gate / (1 + np.exp(-gate)) * up) @ m.w[f"blk.{i}.ffn_down.weight"].T
        self.at += ids.shape[1]
        return self.norm(x, "output_norm.weight")

    def logits(self, states):
        return states @ self.m.w["token_embd.weight"].T


def decode(model, prompt, mode, limit=120):
    """Greedy decoding, token by token, up to the end token or limit."""
    limit = min(limit, model.context - len(prompt))
    b, ids, feed = Batch(model, 1, len(prompt) + limit, mode), [], np.array([prompt])
    while len(ids) < limit:
        ids.append(int(b.logits(b.states(feed)[0, -1]).argmax()))
        if ids[-1] == model.eos:
            break
        feed = np.array([ids[-1:]])
    return ids


def margins(model, pairs, mode, batch_tokens=6144):
    """For each (prompt, answer, counts) of token ids, and which of the answer's count:
    by how much the logit of the answer's next token leads all others, at the
    tightest place that counts. Above zero, greedy decoding gives exactly this
    answer: each token is the best one after the tokens before it, or forced by
    a grammar. All positions are read in one pass."""
    counted = [counts for _, _, counts in pairs]
    pairs = [pair[:2] for pair in pairs]
    order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
    out = [0.0] * len(pairs)
    while order:
        longest = sum(map(len, pairs[order[-1]]))
        part = [order.pop() for _ in range(min(len(order), max(1, batch_tokens // longest)))]
        ids = np.zeros((len(part), longest), np.int64)  # shorter rows are padded on the right, unseen
        for row, i in enumerate(part):
            ids[row, : sum(map(len, pairs[i]))] = sum(pairs[i], [])
        b = Batch(model, *ids.shape, mode)
        states = b.states(ids)
        for row, i in enumerate(part):
            prompt, answer = pairs[i]
            logits = b.logits(states[row, len(prompt) - 1 : len(prompt) + len(answer) - 1])
            at = np.arange(len(answer))
            reached = logits[at, answer].copy()
            logits[at, answer] = -np.inf
            out[i] = float((reached - logits.max(-1))[counted[i]].min())
    return out


class Examiner:
    def __init__(self, model):
        self.m, self.tok = model, model.tokenizer()
        env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        env.filters["tojson"] = lambda v: json.dumps(v, ensure_ascii=False)  # as chat templates know it: no escapes for HTML
        self.template = env.from_string(model.kv["tokenizer.chat_template"])

    def text(self, request):
        """A request as the file's template writes it. Templates get the arguments of calls as objects."""
        messages = json.loads(json.dumps(request.messages))
        for m in messages:
            for call in m.get("tool_calls", []):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return self.template.render(messages=messages, tools=request.tools or None, add_generation_prompt=True)

    def prompt(self, messages):
        """messages is a list of (role, text), or a Request."""
        if not isinstance(messages, tasks.Request):
            messages = tasks.Request("", [{"role": r, "content": c} for r, c in messages])
        return self.tok.encode(self.text(messages), add_special_tokens=False).ids

    def answer(self, answer):
        """An answer's ids, and which of them count: not those of text that a grammar forces."""
        parts = [(answer, True)] if isinstance(answer, str) else answer
        ends = [(sum(len(text) for text, _ in parts[: i + 1]), counts) for i, (_, counts) in enumerate(parts)]
        tokens = self.tok.encode("".join(text for text, _ in parts), add_special_tokens=False)
        counts = [next(c for end, c in ends if start < end) for start, _ in tokens.offsets]
        return tokens.ids + [self.m.eos], np.array([*counts, True])

    def ask(self, cases, mode):
        """The margin of each (messages, answer)."""
        return margins(self.m, [(self.prompt(m), *self.answer(a)) for m, a in cases], mode)

    def reply(self, messages, mode):
        ids = decode(self.m, self.prompt(messages), mode)
        return self.tok.decode([i for i in ids if i != self.m.eos])


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
    exams["tools and JSON"] = [(r, item.answer) for r, item in zip(tasks.requests(), tasks.task_items())]
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


def write_tasks(path):
    """The requests with tools and formats that become tests."""
    with open(path, "w", encoding="utf-8") as f:
        for r in tasks.requests():
            row = {"topic": r.topic, "request": {"messages": r.messages}}
            row["request"] |= ({"tools": r.tools} if r.tools else {}) | ({"response_format": r.format} if r.format else {})
            row |= {"calls": r.calls} if r.calls else {"content": r.content}
            f.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gguf", default="../weir-default.gguf")
    ap.add_argument("--questions", default="../questions.jsonl")
    ap.add_argument("--tasks", default="../tasks.jsonl")
    ap.add_argument("--write-questions", action="store_true", help="and tasks")
    ap.add_argument("--report", default="report.json")
    ap.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    ap.add_argument("--show", type=int, default=5, help="wrong answers to print per exam")
    args = ap.parse_args()
    if args.write_questions:
        write_questions(args.questions)
        write_tasks(args.tasks)

    model = Model(args.gguf)
    ex, report = Examiner(model), {"parameters": model.parameters, "bytes": os.path.getsize(args.gguf), "results": {}}
    todo = {"questions.jsonl": load_questions(args.questions), **exams()}
    for mode in args.modes:
        report["results"][mode] = {name: examine(ex, mode, name, cases, args.show) for name, cases in todo.items()}
        report["results"][mode]["decoded token by token"] = decoded(ex, mode, todo["questions.jsonl"][::37])
    with open(args.report, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
        f.write("\n")


def examine(ex, mode, name, cases, show):
    start, lead = time.time(), ex.ask(cases, mode)
    wrong = [c for c, m in zip(cases, lead) if m <= 0]
    right = sorted(m for m in lead if m > 0)
    low, most = (right[0], right[len(right) // 100]) if right else (0.0, 0.0)
    print(f"{mode}: {name}: {len(right)} of {len(cases)}, margin at least {low:.2f}, of 99 % {most:.2f} ({time.time() - start:.0f} s)", flush=True)
    for messages, want in wrong[:show]:
        print("   ", messages if isinstance(messages, tasks.Request) else messages[-2:], "\n      have", ex.reply(messages, mode), "\n      want", want)
    return {"right": len(right), "of": len(cases), "smallest_margin_logits": round(low, 3), "margin_of_99_percent": round(most, 3)}


def decoded(ex, mode, cases):
    """The same by decoding for real, on a sample: it must agree with margins."""
    right = sum(ex.reply(messages, mode) == want for messages, want in cases)
    print(f"{mode}: decoded token by token: {right} of {len(cases)}", flush=True)
    return {"right": right, "of": len(cases)}


if __name__ == "__main__":
    main()
