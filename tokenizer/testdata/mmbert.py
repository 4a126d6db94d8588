#!/usr/bin/env python3
"""A small vocabulary in the form of mmBERT's, and what llama.cpp makes of texts with it.

    LLAMA_LIB=… mmbert.py FOLDER

writes mmbert.json: tokens, their types, merges, texts and llama.cpp's ids of them. Needs the library in the wheel of xllamacpp
(bench/peers/llamacpp.py), gguf, numpy and cffi.
"""
import json, pathlib, random, sys
import numpy as np
import gguf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import llamacpp

MARK = "\u2581"
corpus = ("the customer was charged twice for the order and wants the money back today; the parcel did not arrive and nobody answers "
          "der Kunde möchte sein Geld zurück, das Paket ist nicht gekommen, la commande n'est pas arrivée, le client attend ").split()


def merges(words, n):
    parts = [[MARK] + list(w) for w in words]
    out = [(MARK, MARK), (MARK + MARK, MARK)]  # runs of spaces, which words cut
    while len(out) < n:
        count = {}
        for p in parts:
            for pair in zip(p, p[1:]):
                count[pair] = count.get(pair, 0) + 1
        best = max(sorted(count), key=count.get)
        out.append(best)
        for p in parts:
            i = 0
            while i + 1 < len(p):
                if (p[i], p[i + 1]) == best:
                    p[i:i + 2] = [p[i] + p[i + 1]]
                i += 1
    return out


folder = pathlib.Path(sys.argv[1])
list_of = merges(corpus, 120)
tokens, types = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], [3] * 5
tokens += [f"<0x{i:02X}>" for i in range(256)]
types += [6] * 256
for text in ["\n", "\n\n", "\n\n\n"]:
    tokens.append(text)
    types.append(1)
for text in sorted({c for w in corpus for c in w} | {MARK}) + [a + b for a, b in list_of]:
    if text not in tokens:
        tokens.append(text)
        types.append(1)
file = folder / "mmbert.gguf"
w = gguf.GGUFWriter(str(file), "llama")
for key, value in (("block_count", 1), ("context_length", 8), ("embedding_length", 8), ("attention.head_count", 1)):
    w.add_uint32("llama." + key, value)
w.add_tokenizer_model("gpt2")
w.add_tokenizer_pre("mmbert")
w.add_token_list(tokens)
w.add_token_types(types)
w.add_token_merges([" ".join(m) for m in list_of])
for key, value in (("bos", 2), ("eos", 1), ("unknown", 3), ("mask", 4)):
    w.add_uint32(f"tokenizer.ggml.{key}_token_id", value)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

llamacpp.ffi.cdef("int32_t llama_tokenize(void *, const char *, int32_t, int32_t *, int32_t, bool, bool);", override=True)
p = llamacpp.llama.llama_model_default_params()
p.vocab_only = True
model = llamacpp.llama.llama_model_load_from_file(str(file).encode(), p)
if model == llamacpp.ffi.NULL:
    sys.exit(" ".join(llamacpp.said[-4:]))
vocab = llamacpp.llama.llama_model_get_vocab(model)


def ids(text, special):
    raw, out = text.encode(), llamacpp.ffi.new("int32_t[4096]")
    n = llamacpp.llama.llama_tokenize(vocab, raw, len(raw), out, 4096, False, special)
    return [out[i] for i in range(n)]


r = random.Random(7)
texts = ["", " ", "  ", "a", " a", "the customer", "the  customer", "   the", "the ", "\n", "\n\n\n\n", "a\nb", "a\n b\n\n\n c ", "\n the", "é", "日本語 the", "\u2581the", "a\u2581b", "\t the", "x\u00a0y", "<mask> the",
         "the customer was charged twice\nder Kunde möchte sein Geld", "<bos>choice question: the money<eos><mask> back<mask> today<eos>the parcel\n\ndid not arrive<eos>"]
alphabet = [" ", "  ", "\n", "\n\n", "é", "日", "<mask>", "<eos>", "\u2581", "😀", "'", "\r\n"] + corpus + list("theparcldö")
texts += ["".join(r.choice(alphabet) + r.choice(["", " "]) for _ in range(r.randint(1, 14))) for _ in range(150)]
json.dump({"tokens": tokens, "types": types, "merges": [" ".join(m) for m in list_of],
           "texts": [{"text": t, "plain": ids(t, False), "special": ids(t, True)} for t in texts]}, open(folder / "mmbert.json", "w"), ensure_ascii=True, separators=(",", ":"))
file.unlink()
