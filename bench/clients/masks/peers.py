"""Follows the schemas and texts that TestMaskBench wrote through llguidance and XGrammar, on one thread.

    WEIR_MASKBENCH=DATA WEIR_MASKBENCH_TRACE=FOLDER go test ./tokenizer/grammar/schema -run TestMaskBench -v
    python3 peers.py FOLDER [llguidance|xgrammar]

Needs the packages llguidance, xgrammar (with torch) and numpy. Times are of this thread's processor time, a mask with what it takes to accept
its token, as TestMaskBench has them.
"""

import base64
import json
import os
import pathlib
import select
import signal
import sys
import time

import numpy as np

LIMIT_SECONDS = 4  # for one schema with its texts
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
        for i, token in enumerate(self.tokens):
            text = self.control.get(i) or "".join(letters[b] for b in token)
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
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
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


def results(engine, cases):
    """follow for each case, in a process that is begun anew when a case takes longer than the limit."""
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
            while done < len(cases) and select.select([f], [], [], LIMIT_SECONDS)[0]:
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
            yield cases[done], {"refused": f"not done after {LIMIT_SECONDS} s, or its process ended"}
            done += 1


def measure(engine, folder):
    compiled, masks = [], []
    count = dict.fromkeys(("refused", "taken", "rejected", "wrong", "out"), 0)
    for case, result in results(engine, [json.loads(line) for line in (folder / "texts.jsonl").open()]):
        if "refused" in result:
            print("refused", case["name"], result["refused"], file=sys.stderr)
            count["refused"] += 1
            continue
        compiled.append(result["compile"])
        masks += result["masks"]
        for text, taken in zip(case["texts"] or [], result["taken"]):
            count[("taken" if taken else "rejected") if text["valid"] else ("wrong" if taken else "out")] += 1
            if taken != text["valid"]:
                print("wrong" if taken else "rejected", case["name"], file=sys.stderr)
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
            measure(engine(vocabulary), folder)


if __name__ == "__main__":
    main()
