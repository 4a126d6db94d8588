#!/usr/bin/env python3
"""Writes escaped.json.gz: what Hugging Face's tokenizers library makes of texts with vocabularies of Gemma 4's kind.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 && python3 escaped.py escaped.json.gz

Trains BPE with byte fallback on the sentences of unigram.py: a normaliser writes word marks for spaces, and text is cut at line
breaks. A model is stored as GGUF stores it: entries, types and merges. In one model words may join, in the other one they do not.
"""
import base64
import gzip
import json
import random
import sys

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from unigram import HARD, SENTENCES, random_texts

CONTROL, USER = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"], ["<|channel>", "<channel|>", "[note]"]


def train(words):
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "▁")
    cut = [pre_tokenizers.Split(Regex("\n+"), "isolated")]
    if words:
        cut.append(pre_tokenizers.Split(Regex("▁+[^▁]*"), "isolated"))
    t.pre_tokenizer = pre_tokenizers.Sequence(cut)
    special = CONTROL + ["<0x%02X>" % i for i in range(256)]
    text = ["\n".join(SENTENCES[i:] + SENTENCES[:i]).replace("\n", "\n" * (1 + i % 5)) for i in range(20)]
    # Sequences of rare characters are left to bytes.
    rare = {c for s in SENTENCES for c in s if sum(t.count(c) for t in SENTENCES) < 3}
    text = ["".join(c for c in t if c not in rare) for t in text]
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=2600, special_tokens=special, show_progress=False))
    t.pre_tokenizer = cut[0]
    return t


def main():
    rng = random.Random(11)
    texts = HARD + SENTENCES + random_texts(rng, 400)
    texts = [t.encode("utf-8", "replace").decode() for t in texts]
    texts += ["\n" * n + "x" + "\n" * n for n in (1, 2, 3, 4, 5, 9)] + [" ".join(rng.choices(SENTENCES, k=60)), "\n".join(SENTENCES)]
    texts += [" " * n + "the" + " " * n for n in (1, 2, 3, 7, 30)] + ["".join(rng.choices("abc \n", k=n)) for n in (8, 30, 300, 3000)]
    result = {"texts": [base64.b64encode(t.encode()).decode() for t in texts], "models": []}
    for name, words in [("words by themselves", True), ("words may join", False)]:
        t = train(words)
        doc = json.loads(t.to_str())
        vocab = doc["model"]["vocab"]
        # Special tokens are no longer found in text: only the model itself is compared.
        plain = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m) for m in doc["model"]["merges"]], byte_fallback=True, unk_token="<unk>"))
        plain.normalizer, plain.pre_tokenizer = t.normalizer, t.pre_tokenizer
        tokens = sorted(vocab, key=vocab.get)
        types = [3 if s in CONTROL else 6 if s.startswith("<0x") and len(s) == 6 else 1 for s in tokens]
        for s in USER:
            tokens.append(s)
            types.append(4)
        result["models"].append({
            "name": name, "tokens": tokens, "types": types, "merges": [" ".join(m) for m in doc["model"]["merges"]],
            "ids": [plain.encode(t, add_special_tokens=False).ids for t in texts],
        })
        print(name, len(tokens), "entries,", len(doc["model"]["merges"]), "merges", file=sys.stderr)
    data = json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
    with open(sys.argv[1], "wb") as f:
        f.write(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    main()
