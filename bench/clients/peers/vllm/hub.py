"""Files and tokenizers for the models that the tests name, of those that are in MODELS."""
import functools, os
MODELS = os.environ["MODELS"] + "/"
def file_of(name):
    n = (name or "").lower()
    if "tiny-random" in n: return MODELS + "stories260k.gguf"
    if any(k in n for k in ("e5-small", "bge", "minilm")): return MODELS + "minilm.gguf"
    if "zephyr" in n: return MODELS + "qwen2.5-coder-1.5b.gguf"
    if "smollm" in n or "zephyr" in n: return MODELS + "smollm2.gguf"
    if "gemma" in n: return MODELS + "gemma3.gguf"
    if "1.5b" in n: return MODELS + "qwen2.5-coder-1.5b.gguf"
    return MODELS + "qwen2.5-coder.gguf"

@functools.cache
def tokenizer(name):
    import gguf
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, Regex, AddedToken, normalizers
    from transformers import PreTrainedTokenizerFast
    path = file_of(name)
    if "minilm" in path:
        t = Tokenizer.from_file(MODELS + "minilm/tokenizer.json"); t.no_truncation(); t.no_padding()
        return PreTrainedTokenizerFast(tokenizer_object=t)
    f = gguf.GGUFReader(path).fields
    get = lambda k: f[k].contents()
    toks, types_ = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in get("tokenizer.ggml.merges")]
    t = Tokenizer(models.BPE({k: i for i, k in enumerate(toks)}, merges))
    if "smollm" in path:
        pre = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    else:
        pre = [pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    t.pre_tokenizer = pre_tokenizers.Sequence(pre)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(k, special=True, normalized=False) for k, ty in zip(toks, types_) if ty == 3])
    p = PreTrainedTokenizerFast(tokenizer_object=t, clean_up_tokenization_spaces=False)
    p.chat_template = get("tokenizer.chat_template")
    return p

def vocab(name):
    import gguf
    return len(gguf.GGUFReader(file_of(name)).fields["tokenizer.ggml.tokens"].data)

@functools.cache
def adapter(repo):
    """A file with an adapter of rank 4 on the queries of every layer, for the model that the repository's name begins with: a stand-in for weights that are not here."""
    import gguf, numpy as np, tempfile
    model = gguf.GGUFReader(file_of(repo))
    field = lambda k: model.fields[k].contents()
    arch = field("general.architecture")
    path = os.path.join(tempfile.mkdtemp(), os.path.basename(repo) + ".gguf")
    w = gguf.GGUFWriter(path, arch)
    w.add_type("adapter"); w.add_string("adapter.type", "lora"); w.add_float32("adapter.lora.alpha", 4.0)
    r = np.random.default_rng(1)
    shapes = {t.name: t.shape for t in model.tensors}
    for i in range(field(arch + ".block_count")):
        n_in, n_out = (int(n) for n in shapes[f"blk.{i}.attn_q.weight"])
        w.add_tensor(f"blk.{i}.attn_q.weight.lora_a", r.normal(0, 0.02, (4, n_in)).astype(np.float32))
        w.add_tensor(f"blk.{i}.attn_q.weight.lora_b", r.normal(0, 0.02, (n_out, 4)).astype(np.float32))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    return path
