"""Takes a finished GGUF apart into what drill.py goes on from, so that a model
can learn something new without beginning again. Tokens that the vocabulary has
got since begin with the mean of their parts.

    python resume.py --gguf ../weir-default.gguf --out out
"""

import argparse
import os
import shutil

import numpy as np

import export
import verify
import vocabulary


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gguf", default="../weir-default.gguf")
    ap.add_argument("--loss", default="../loss.csv")
    ap.add_argument("--out", default="out")
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)

    m = verify.Model(args.gguf)
    old = m.tokenizer()
    new = old if old.get_vocab_size() == vocabulary.SIZE else vocabulary.extend(old)
    new.save(f"{args.out}/tokenizer.json")

    embed = m.w["token_embd.weight"]
    texts = {i: t for t, i in new.get_vocab().items()}
    rows = [embed[old.encode(verify.plain(texts[i])).ids].mean(0) for i in range(len(embed), vocabulary.SIZE)]
    params = {"embed": np.concatenate([embed, *[r[None] for r in rows]]), "output_norm": m.w["output_norm.weight"]}
    for ours, theirs in export.LAYER_TENSORS.items():
        params[ours] = np.stack([m.w[f"blk.{i}.{theirs}"] for i in range(m.layers)])
    np.savez(f"{args.out}/weights.npz", **params)
    shutil.copy(args.loss, f"{args.out}/loss.csv")
    print(f"{len(embed)} tokens, now {vocabulary.SIZE}")


if __name__ == "__main__":
    main()
