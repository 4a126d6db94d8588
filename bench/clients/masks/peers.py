"""Follows the schemas and texts that TestMaskBench wrote through llguidance and XGrammar, on one thread, and compares the three.

    WEIR_MASKBENCH=DATA WEIR_MASKBENCH_TRACE=FOLDER go test ./tokenizer/grammar/schema -run TestMaskBench -v
    python3 peers.py FOLDER [--limit SECONDS] [--schemas N] [--engines llguidance,xgrammar]

Needs the packages llguidance, xgrammar (with torch) and numpy. Times are of this thread's processor time, a mask with what it takes to accept
its token, as TestMaskBench has them. A schema that is not done after the limit, its texts included, counts as one that is not served. The
first table is of all schemas, the second of those that every engine served.
"""

import argparse
import base64
import json
import os
import pathlib
import select
import signal
import sys
import time

import numpy as np

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # Llama 3's


def byte_letters():
    """GPT-2's letters for bytes."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(other)}}


class Vocabulary:
    def __init__(self, path):
        data = json.loads(path.read_text())
        self.control = {i: text for text, i in data["control"].items()}
        self.tokens = [self.control[i].encode() if i in self.control else base64.b64decode(p or "") for i, p in enumerate(data["pieces"])]
        self.end = data["end"]
        self.kind = data["kind"]

    def hugging_face(self):
        """The vocabulary as Hugging Face's tokenizer.json. Where several pairs give a token, all of them are merges, of the token's rank."""
        letters, ids = byte_letters(), {}
        single = range(0)  # single bytes beside the pieces of one byte, as SentencePiece has them: the pieces keep their text
        for i in range(len(self.tokens) - 255):
            if self.tokens[i] == b"\0" and self.tokens[i : i + 256] == [bytes([b]) for b in range(256)]:
                single = range(i, i + 256)
        for i in [*(i for i in range(len(self.tokens)) if i not in single), *single]:
            text = self.control.get(i) or "".join(letters[b] for b in self.tokens[i])
            ids[f"<{i}>" if text in ids or not text else text] = i
        merges = [[text[:k], text[k:]] for text in ids for k in range(1, len(text)) if text[:k] in ids and text[k:] in ids]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        split = {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": False}
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        return json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": level,
            "added_tokens": [{"id": i, "content": text, **flags} for i, text in sorted(self.control.items())],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]} if self.kind == "gpt2" else level,
            "model": {"type": "BPE", "vocab": ids, "merges": merges, "byte_fallback": False, "ignore_merges": False, "dropout": None,
                      "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False}})


class LLGuidance:
    name = "llguidance"

    def __init__(self, vocabulary):
        import llguidance
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        self.library, self.fill = llguidance, fill_next_token_bitmask
        self.tokenizer = llguidance.LLTokenizer(vocabulary.hugging_face(), n_vocab=len(vocabulary.tokens), eos_token=vocabulary.end)
        self.mask = allocate_token_bitmask(1, len(vocabulary.tokens))
        self.end = vocabulary.end

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
        info = xgrammar.TokenizerInfo(vocabulary.tokens, xgrammar.VocabType.RAW, stop_token_ids=[vocabulary.end])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=True)
        self.mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.end = vocabulary.end

    def compile(self, schema):
        # As JSON Schema has it: objects are open, blanks are free.
        return self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)

    def begin(self, compiled):
        return self.library.GrammarMatcher(compiled)

    def step(self, matcher, token):
        matcher.fill_next_token_bitmask(self.mask)
        return matcher.accept_token(token)


def follow(engine, case):
    """What one schema gives: the time to compile, those of its masks, and which instances are taken."""
    start = time.thread_time_ns()
    try:
        grammar = engine.compile(case["schema"])
    except Exception as e:
        return {"refused": str(e).splitlines()[0][:160]}
    compiled, masks, taken = time.thread_time_ns() - start, [], []
    for text in case["texts"] or []:
        matcher = engine.begin(grammar)
        for token in [*text["ids"], engine.end]:
            start = time.thread_time_ns()
            fits = engine.step(matcher, token)
            masks.append(time.thread_time_ns() - start)
            if not fits:
                break
        taken.append(bool(fits))
    return {"compile": compiled, "masks": masks, "taken": taken}


def results(engine, cases, limit):
    """follow for each case, in a process that is started over when a case takes longer than the limit."""
    done = 0
    while done < len(cases):
        result, out = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(result)
            with os.fdopen(out, "w") as f:
                for case in cases[done:]:
                    print(json.dumps(follow(engine, case)), file=f, flush=True)
            os._exit(0)
        os.close(out)
        with os.fdopen(result, "rb", buffering=0) as f:
            text = b""
            while done < len(cases) and select.select([f], [], [], limit)[0]:
                more = f.read(1 << 20)
                if not more:
                    break
                *lines, text = (text + more).split(b"\n")
                for line in lines:
                    yield cases[done], json.loads(line)
                    done += 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if done < len(cases):
            yield cases[done], {"late": f"not done after {limit:g} s, or its process ended"}
            done += 1


class Row:
    """What one engine made of some schemas."""

    def __init__(self, name):
        self.name, self.served, self.refused, self.late = name, {}, 0, 0

    def add(self, name, result):
        for kind in ("refused", "late"):
            if result.get(kind):
                print(f"{self.name}: {kind} {name}: {result[kind]}", file=sys.stderr, flush=True)
                setattr(self, kind, getattr(self, kind) + 1)
                return
        self.served[name] = result

    def judge(self, cases):
        """How many instances that hold are taken and not, and how many that do not hold."""
        count = [0, 0, 0, 0]
        for case in cases:
            if case["name"] in self.served:
                for text, taken in zip(case["texts"] or [], self.served[case["name"]]["taken"]):
                    count[2 * (not text["valid"]) + (not taken)] += 1
                    if taken != text["valid"]:
                        print(f"{self.name}: {'rejected' if text['valid'] else 'wrong'} {case['name']}", file=sys.stderr)
        return count

    def times(self, names, kind):
        """Percentiles in microseconds."""
        took = [self.served[n][kind] for n in names]
        took = np.sort(np.concatenate([np.ravel(t) for t in took])) / 1e3
        return [took[int(share * (len(took) - 1))] for share in (0.5, 0.9, 0.99, 0.999, 1)]


def weir(folder, names):
    """The rows of TestMaskBench: the first time that a grammar sees a text, and again."""
    rows = [Row("weir, first"), Row("weir, again")]
    for line in (folder / "weir.jsonl").open():
        result = json.loads(line)
        if result["name"] not in names:
            continue
        for row, kind in zip(rows, ("first", "again")):
            row.add(result["name"], {**result, "masks": result[kind]})
    return rows


def table(rows, cases, names=None):
    print("| | schemas served, refused, late | instances that hold: taken, not | taken that do not hold | compile p50, p90, p99, ms | mask p50, p90, p99, p99.9, most, µs |"
          "\n|---|---|---|---|---|---|")
    for row in rows:
        chosen = names if names is not None else list(row.served)
        if not chosen:
            continue
        held, not_held, wrong, out = row.judge([c for c in cases if c["name"] in set(chosen)])
        compiled, masks = row.times(chosen, "compile"), row.times(chosen, "masks")
        print(f"| {row.name} | {len(chosen)}, {row.refused}, {row.late} | {held}, {not_held} | {wrong} of {wrong + out} | "
              + ", ".join(f"{t / 1e3:.2f}" for t in compiled[:3]) + " | " + ", ".join(f"{t:.1f}" for t in masks) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--limit", type=float, default=10, help="seconds for one schema with its texts")
    p.add_argument("--schemas", type=int, default=10**9, help="takes so many of them, spread evenly")
    p.add_argument("--engines", default="llguidance,xgrammar")
    args = p.parse_args()
    vocabulary = Vocabulary(args.folder / "vocabulary.json")
    cases = [json.loads(line) for line in (args.folder / "texts.jsonl").open()]
    count = min(args.schemas, len(cases))
    cases = [cases[i * len(cases) // count] for i in range(count)]
    names = {case["name"] for case in cases}
    rows = weir(args.folder, names)
    for engine in (LLGuidance, XGrammar):
        if engine.name not in args.engines.split(","):
            continue
        row, engine = Row(engine.name), engine(vocabulary)
        for case, result in results(engine, cases, args.limit):
            row.add(case["name"], result)
        rows.append(row)
    print(f"{len(cases)} schemas, {len(vocabulary.tokens)} tokens, {args.limit:g} s for each schema\n")
    table(rows, cases)
    both = sorted(set.intersection(*(set(row.served) for row in rows)))
    print(f"\nThe {len(both)} that all of them serve:\n")
    table(rows, cases, both)


if __name__ == "__main__":
    main()
