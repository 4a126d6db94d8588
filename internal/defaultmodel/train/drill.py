"""The second stage: goes on from train.py's weights with the questions of the
exam itself, sums above all, under the quantisation noise of use.

    python drill.py --steps 480                              # about ten minutes on two cores
    python drill.py --steps 150 --lr 0.0007 --exams 2        # then what is still weak

The first stage teaches the forms, and many things that nobody will check; a
table of sums is learned by repetition. An exam finds the questions that the
model gets wrong, or right by a hair, which then come up more often.
"""

import argparse
import csv
import random
import time

import jax.numpy as jnp
import numpy as np

import corpus
import forms
import model
import tasks
import tools
import train
import vocabulary

SUMS = ("add", "subtract", "multiply", "divide", "follow-up sum")
SHARES = {"sums": 0.30, "facts": 0.20, "talk": 0.03, "unknown": 0.08, "tools": 0.19, "json": 0.20}
TURNS = 16  # of the longest conversation


class Drill(corpus.Sampler):
    """Draws conversations of the exam, each kind in shuffled rounds."""

    def __init__(self, rng, weak_share):
        super().__init__(rng)
        self.weak, self.weak_share = [], weak_share
        self.long = False  # only conversations of many turns
        self.kinds = {k: [] for k in SHARES}
        for item in tasks.check_items():
            self.kinds[kind(item.topic)].append(item)

    def conversation(self):
        if self.long:
            told = {}
            return [m for _ in range(self.rng.randint(2, TURNS)) for m in self.turns(told)]
        if self.weak and self.rng.random() < self.weak_share:
            item, question = self.rng.choice(self.weak)
            return self.told(item, corpus.vary(question, self.rng) if kind(item.topic) == "facts" else question)
        name = self.rng.choices(list(SHARES), SHARES.values())[0]
        item, question = self._next(name, self.kinds[name])
        if name == "unknown" and self.rng.random() < 0.5:  # the fallback is for what was never seen
            return [("user", corpus.unknown_question(self.rng)), ("assistant", corpus.FALLBACK)]
        if name in ("tools", "json") and self.rng.random() < 0.7:
            return self.tools_or_json(name)
        if name == "facts" and self.rng.random() < 0.5:
            question = corpus.vary(question, self.rng)
        talk = self.told(item, question)
        if talk[0][0] != "system" and self.rng.random() < 0.08:
            talk = super().conversation() + talk
        return talk

    def tools_or_json(self, name):
        if name == "json":
            return forms.json_conversation(self)
        if self.rng.random() > 0.1:
            return tools.tool_conversation(self)
        question, tool, data = forms.demanded(self.rng)
        return [("system", tools.listing([tool])), ("user", question), ("assistant", forms.demanded_call(tool.name, data))]

    def told(self, item, question):
        return [*item.history, (item.role, question), ("assistant", item.answer)]


def kind(topic):
    if topic in SUMS:
        return "sums"
    if topic.split()[0] in ("tools", "json"):
        return topic.split()[0]
    if topic in ("name given", "name remembered", "name unknown", "repeat", "nothing to repeat"):
        return "talk"
    return "unknown" if topic in ("unknown", "out of range") else "facts"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--run", default="out", help="folder of train.py; its weights are replaced")
    ap.add_argument("--seed", type=int, default=2)
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--lr", type=float, default=1.5e-3)
    ap.add_argument("--rows", type=int, default=16)
    ap.add_argument("--copies", type=float, default=0.0, help="share of texts that are copies of words")
    ap.add_argument("--coarse", type=int, default=0, help="steps at the start with products in bf16")
    ap.add_argument("--exams", type=int, default=0, help="how often to look for weak questions, at even distances from the start")
    ap.add_argument("--weak-share", type=float, default=0.12, help="of conversations that are weak questions, after an exam")
    args = ap.parse_args()

    with open(f"{args.run}/tokenizer.json", encoding="utf-8") as f:
        encoder = vocabulary.Encoder(vocabulary.Tokenizer.from_str(f.read()))
    sampler = Drill(random.Random(args.seed), args.weak_share)
    sampler.copies = args.copies
    cfg, coarse = model.Config(), model.Config(coarse=True)
    params = {k: jnp.asarray(v) for k, v in np.load(f"{args.run}/weights.npz").items()}
    m = {k: jnp.zeros_like(p) for k, p in params.items()}
    v = {k: jnp.zeros_like(p) for k, p in params.items()}

    with open(f"{args.run}/loss.csv", newline="") as f:
        *_, last = csv.reader(f)
    done, seen, start = int(last[0]), int(last[1]), time.time() - int(last[5])  # the curve goes on
    with open(f"{args.run}/loss.csv", "a", newline="") as f:
        log = csv.writer(f)
        for step in range(args.steps):
            if args.exams and step % (args.steps // args.exams) == 0:
                sampler.weak = train.weak_questions(coarse, params, encoder)
                print(f"step {step}: {len(sampler.weak)} weak questions", flush=True)
            # Two of three steps look at short conversations, where attention is cheap, every sixth at whole contexts.
            length = 128 if step % 3 else 256 if step % 6 else model.Config.context
            sampler.long = length == model.Config.context
            batch = train.pack(encoder, sampler, args.rows * 256 // length, length, whole=length == 128)
            seen += int((batch[1] >= 0).sum())
            lr = args.lr * min(1.0, (step + 1) / 20, 1.25 * (args.steps - step) / args.steps)
            params, m, v, answer, wrong = train.train_step(coarse if step < args.coarse else cfg, True, params, m, v, batch, step, lr)
            if step % 10 == 9:
                row = [done + step + 1, seen, f"{float(answer):.5f}", f"{float(wrong):.5f}", f"{lr:.6f}", f"{time.time() - start:.0f}"]
                log.writerow(row)
                f.flush()
                print(*row, flush=True)
            if step % 50 == 49 or step == args.steps - 1:
                np.savez(f"{args.run}/weights.npz", **{k: np.asarray(p) for k, p in params.items()})


if __name__ == "__main__":
    main()
