#!/usr/bin/env python3
"""Writes qwen3/embed.gguf, qwen3/rerank.gguf and qwen3/expected.json: small random models of Qwen3-Embedding's and
Qwen3-Reranker's shape, and what the transformers library makes of texts with them.

    pip install gguf==0.19.0 numpy tokenizers torch transformers && python3 qwen3.py qwen3

The tokenizer is a byte-level BPE of Qwen2's expressions, trained on the sentences below. As in the published embedding
model it puts <|endoftext|> behind every text, whose hidden state is the vector; the reranker's pairs are rendered and
tokenised as its model card does it, part by part and without an end, and the score is the softmax of the logits of
"yes" and "no" at the last token, whose rows of the output matrix are the file's head.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM

TEXTS = [
    "The capital of China is Beijing.", "Gravity is a force that attracts two bodies towards each other.", "yes", "no", "a", " a ",
    "What is the capital of China?", "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:What is gravity?",
    "Größe, naïve café — 北京是中国的首都。", "def f(x):\n    return x + 1\n", "  two  spaces\n\nand lines ", "🤖 1234567 don't", "x" * 200,
    "The capital of China is Beijing. " * 12,
]
QUERIES = ["What is the capital of China?", "Explain gravity"]
DOCUMENTS = [TEXTS[0], TEXTS[1], TEXTS[8], "yes, it is no apple\n"]
PREFIX = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. '
          'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
PAIR = "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
THINK = ["<think>", "</think>"]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=1)
    t.train_from_iterator(TEXTS + [PREFIX, SUFFIX, PAIR, "yes no yes no"], trainer)
    t.add_special_tokens(SPECIAL)
    t.add_tokens(THINK)
    return t


def network(vocabulary):
    torch.manual_seed(3)
    config = Qwen3Config(vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-6, tie_word_embeddings=True,
                         rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, attn_implementation="eager")
    model = Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.1 + 1 if "norm" in name else torch.randn_like(p) * (0.3 if "embed" in name else 0.25))
    return model


def write(path, t, model, yes, no, reranker):
    c = model.config
    w = gguf.GGUFWriter(str(path), "qwen3")
    w.add_name("tiny reranker" if reranker else "tiny embedding")
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(1000000.0)
    w.add_pooling_type(gguf.PoolingType.RANK if reranker else gguf.PoolingType.LAST)
    vocabulary = sorted(t.get_vocab().items(), key=lambda x: x[1])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list([text for text, _ in vocabulary])
    kinds = {**{x: gguf.TokenType.CONTROL for x in SPECIAL}, **{x: gguf.TokenType.USER_DEFINED for x in THINK}}
    w.add_token_types([int(kinds.get(text, gguf.TokenType.NORMAL)) for text, _ in vocabulary])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in json.loads(t.to_str())["model"]["merges"]])
    end = t.token_to_id("<|endoftext|>")
    w.add_eos_token_id(t.token_to_id("<|im_end|>") if reranker else end)
    w.add_pad_token_id(end)
    w.add_add_bos_token(False)
    if reranker:
        w.add_array("qwen3.classifier.output_labels", ["yes", "no"])
        w.add_string("tokenizer.chat_template.rerank", PREFIX + PAIR + SUFFIX)
    else:
        w.add_add_eos_token(True)
    state = {k: v.detach().numpy().astype(np.float32) for k, v in model.state_dict().items()}
    w.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    w.add_tensor("output_norm.weight", state["model.norm.weight"])
    for i in range(c.num_hidden_layers):
        for ours, its in {
            "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
            "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
        }.items():
            w.add_tensor(f"blk.{i}.{ours}.weight", state[f"model.layers.{i}.{its}.weight"])
    if reranker:
        head = state["model.embed_tokens.weight"] if c.tie_word_embeddings else state["lm_head.weight"]
        w.add_tensor("cls.output.weight", np.stack([head[yes], head[no]]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    folder = pathlib.Path(sys.argv[1])
    t = tokenizer()
    yes, no, end = t.token_to_id("yes"), t.token_to_id("no"), t.token_to_id("<|endoftext|>")
    assert None not in (yes, no, end)
    model = network(t.get_vocab_size())
    write(folder / "embed.gguf", t, model, yes, no, False)
    write(folder / "rerank.gguf", t, model, yes, no, True)
    expected = {"texts": [], "pairs": []}
    double = network(t.get_vocab_size()).double()
    plain = lambda text: t.encode(text, add_special_tokens=False).ids
    with torch.no_grad():
        for text in TEXTS:
            ids = plain(text) + [end]
            v = double.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
            expected["texts"].append({"text": text, "ids": ids, "vector": (v / v.norm()).tolist()})
        for query in QUERIES:
            for document in DOCUMENTS:
                ids = plain(PREFIX) + plain(PAIR.replace("{query}", query).replace("{document}", document)) + plain(SUFFIX)
                logits = double(input_ids=torch.tensor([ids])).logits[0, -1]
                score = torch.softmax(torch.stack([logits[no], logits[yes]]), 0)[1]
                expected["pairs"].append({"query": query, "document": document, "tokens": len(ids), "score": float(score)})
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    print([round(p["score"], 4) for p in expected["pairs"]], max(len(x["ids"]) for x in expected["texts"]))


main()
