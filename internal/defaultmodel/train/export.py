"""Writes the trained weights as a GGUF file of architecture `llama` in Q8_0."""

import argparse
import json

import gguf
import numpy as np

import model
import vocabulary

LAYER_TENSORS = {
    "attn_q": "attn_q.weight", "attn_k": "attn_k.weight", "attn_v": "attn_v.weight", "attn_output": "attn_output.weight",
    "ffn_gate": "ffn_gate.weight", "ffn_up": "ffn_up.weight", "ffn_down": "ffn_down.weight",
    "attn_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight",
}


def add_metadata(w, cfg, params):
    w.add_name("weir default")
    w.add_description("Demonstration model of weir, trained from scratch on generated text")
    w.add_size_label(f"{params / 1e6:.1f}M")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_vocab_size(cfg.vocab)
    w.add_context_length(cfg.context)
    w.add_embedding_length(cfg.width)
    w.add_block_count(cfg.layers)
    w.add_feed_forward_length(cfg.ffn)
    w.add_head_count(cfg.heads)
    w.add_head_count_kv(cfg.kv_heads)
    w.add_rope_dimension_count(cfg.head)
    w.add_rope_freq_base(cfg.rope_base)
    w.add_layer_norm_rms_eps(cfg.eps)


def add_vocabulary(w, path):
    with open(path, encoding="utf-8") as f:
        bpe = json.load(f)["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    kinds = dict.fromkeys(vocabulary.SPECIALS, gguf.TokenType.CONTROL) | dict.fromkeys(vocabulary.MARKERS, gguf.TokenType.USER_DEFINED)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([kinds.get(t, gguf.TokenType.NORMAL) for t in tokens])
    w.add_token_merges([" ".join(m) for m in bpe["merges"]])
    w.add_bos_token_id(0)
    w.add_eos_token_id(2)
    w.add_pad_token_id(0)
    w.add_add_bos_token(False)
    w.add_chat_template(vocabulary.CHAT_TEMPLATE)


def add_tensor(w, name, values):
    values = np.ascontiguousarray(values, np.float32)
    if values.ndim == 1:  # norms stay in F32
        w.add_tensor(name, values)
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    w.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--run", default=["out"], nargs="+", help="folders of train.py and drill.py; weights of several are averaged")
    ap.add_argument("--shares", nargs="+", type=float, help="of the runs in the average; default equal")
    ap.add_argument("--gguf", default="../weir-default.gguf")
    args = ap.parse_args()
    runs = [np.load(f"{run}/weights.npz") for run in args.run]
    params = {k: np.average([run[k] for run in runs], axis=0, weights=args.shares) for k in runs[0]}
    cfg = model.Config()

    w = gguf.GGUFWriter(args.gguf, "llama")
    add_metadata(w, cfg, model.count(params))
    add_vocabulary(w, f"{args.run[0]}/tokenizer.json")
    add_tensor(w, "token_embd.weight", params["embed"])  # also the output matrix
    for i in range(cfg.layers):
        for ours, theirs in LAYER_TENSORS.items():
            add_tensor(w, f"blk.{i}.{theirs}", params[ours][i])
    add_tensor(w, "output_norm.weight", params["output_norm"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
