"""Follows the schemas and texts that TestMaskBench wrote through llguidance and XGrammar, on one thread.

    WEIR_MASKBENCH=DATA WEIR_MASKBENCH_TRACE=FOLDER go test ./tokenizer/grammar/schema -run TestMaskBench -v
    python3 peers.py FOLDER [llguidance|xgrammar]

Needs the packages llguidance, xgrammar (with torch) and numpy. Times are of this thread's processor time, a mask with what it takes to accept
its token, as TestMaskBench has them.
"""

import base64
import json
import pathlib
import sys
import time

import numpy as np


class Vocabulary:
    """What llguidance asks of a tokenizer. Texts come as tokens, so nothing is ever encoded but single bytes."""

    def __init__(self, path):
        data = json.loads(path.read_text())
        names = {i: text for text, i in data["control"].items()}
        self.tokens = [names[i].encode() if i in names else base64.b64decode(p or "") for i, p in enumerate(data["pieces"])]
        self.special_token_ids = sorted(names)
        self.eos_token_id = data["end"]
        self.bos_token_id = None
        single = {t: i for i, t in enumerate(self.tokens) if len(t) == 1}
        self.single = [single.get(bytes([b]), 0) for b in range(256)]

    def __call__(self, text):
        return [self.single[b] for b in text]


class LLGuidance:
    name = "llguidance"

    def __init__(self, vocabulary):
        import llguidance
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        self.library, self.fill = llguidance, fill_next_token_bitmask
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary), n_vocab=len(vocabulary.tokens))
        self.mask = allocate_token_bitmask(1, len(vocabulary.tokens))
        self.end = vocabulary.eos_token_id

    def compile(self, schema):
        grammar = self.library.LLMatcher.grammar_from_json_schema(schema)
        matcher = self.library.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, compiled):
        return compiled.deep_copy()

    def step(self, matcher, token):
        self.fill(matcher, self.mask, 0)
        if not self.mask[0, token >> 5] >> (token & 31) & 1:
            return False
        matcher.consume_token(token)
        return not matcher.is_error()


class XGrammar:
    name = "xgrammar"

    def __init__(self, vocabulary):
        import xgrammar

        self.library = xgrammar
        info = xgrammar.TokenizerInfo(vocabulary.tokens, xgrammar.VocabType.RAW, stop_token_ids=[vocabulary.eos_token_id])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.end = vocabulary.eos_token_id

    def compile(self, schema):
        # As JSON Schema has it: objects are open, blanks are free.
        return self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)

    def begin(self, compiled):
        return self.library.GrammarMatcher(compiled)

    def step(self, matcher, token):
        matcher.fill_next_token_bitmask(self.mask)
        return matcher.accept_token(token)


def follow(engine, folder):
    compiled, masks = [], []
    count = {"refused": 0, "taken": 0, "rejected": 0, "wrong": 0, "out": 0}
    rejected = []
    for line in (folder / "texts.jsonl").open():
        case = json.loads(line)
        start = time.thread_time_ns()
        try:
            grammar = engine.compile(case["schema"])
        except Exception as e:
            print("refused", case["name"], str(e).splitlines()[0][:160], file=sys.stderr)
            count["refused"] += 1
            continue
        compiled.append(time.thread_time_ns() - start)
        for text in case["texts"] or []:
            matcher = engine.begin(grammar)
            fits = True
            for token in [*text["ids"], engine.end]:
                start = time.thread_time_ns()
                fits = engine.step(matcher, token)
                masks.append(time.thread_time_ns() - start)
                if not fits:
                    break
            count[("taken" if fits else "rejected") if text["valid"] else ("wrong" if fits else "out")] += 1
            if fits != text["valid"]:
                print("wrong" if fits else "rejected", case["name"], file=sys.stderr)
    print(f"{engine.name}: {len(compiled)} schemas, {count['refused']} refused; instances that hold: {count['taken']} taken, {count['rejected']} not; "
          f"that do not hold: {count['wrong']} taken, {count['out']} not")
    for name, took in (("compile", compiled), ("masks", masks)):
        took = np.sort(np.array(took)) / 1e3
        at = [took[int(share * (len(took) - 1))] for share in (0.5, 0.9, 0.99, 0.999, 1)]
        print(f"{name:12} n {len(took):7} µs: p50 {at[0]:.1f} p90 {at[1]:.1f} p99 {at[2]:.1f} p99.9 {at[3]:.1f} max {at[4]:.1f}", flush=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    vocabulary = Vocabulary(folder / "vocabulary.json")
    for engine in (LLGuidance, XGrammar):
        if len(sys.argv) < 3 or engine.name in sys.argv[2:]:
            follow(engine(vocabulary), folder)


if __name__ == "__main__":
    main()
