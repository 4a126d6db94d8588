#!/usr/bin/env python3
"""llama.cpp as a second implementation, through the library in the wheel of xllamacpp (its CPU build exports llama.cpp's own functions).

    pip install xllamacpp==2026.10.11549 cffi numpy
    llamacpp.py logits FOLDER MODEL.gguf…     logits of tokens.txt beside each model, into FOLDER/NAME.logits (float32,
                                              [tokens][vocabulary], at most 64 KiB of the beginning)
    llamacpp.py quality BASE.kld MODEL.gguf   divergence from what weir bench quality --save-all-logits wrote, as JSON
    llamacpp.py speed MODEL.gguf [repacked]   tokens per second of a prompt of 512, and decoding with 1, 4 and 16 sequences of 32, as JSON,
                                              without and with repacked weights; REPEAT=1 measures once, not thrice
    llamacpp.py bursts MODEL.gguf [repacked]  answers lines of its input, "prompt N" and "decode N", with tokens per second
    llamacpp.py long MODEL.gguf               a prompt of 8,192 tokens, decoding 16 sequences of that length, and the memory of their cache
    llamacpp.py serve MODEL.gguf              llama.cpp's server, for 16 clients; prints its address and runs until its input ends

LLAMA_LIB names another build of the library: of llama.cpp, or of ik_llama.cpp, whose differences are in ik.py. Structures are those of llama.h of
October 2026.
"""
import ctypes, importlib.util, json, os, pathlib, re, statistics, struct, sys, time
import numpy as np
from cffi import FFI
from ik import Ik


class LlamaCpp:
    """What differs between llama.cpp and its fork: structures, and how a model is set."""

    structures = """
struct llama_model_params { void *devices, *overrides; int32_t n_gpu_layers; int split_mode, load_mode, lazy_mode; int32_t main_gpu;
  const float *tensor_split; void *progress, *progress_data, *kv_overrides;
  bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp; };
struct llama_context_params { uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
  int32_t n_threads, n_threads_batch; int ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow; uint32_t yarn_orig_ctx;
  float defrag_thold; void *eval, *eval_data; int type_k, type_v; void *abort, *abort_data;
  bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified; void *samplers; size_t n_samplers; void *ctx_other; };
typedef struct { int32_t n_tokens; int32_t *token; float *embd; int32_t *pos, *n_seq_id; int32_t **seq_id; int8_t *logits; } llama_batch;
void llama_model_free(void *); void *llama_get_memory(void *); void llama_memory_clear(void *, bool);
size_t llama_state_seq_get_size(void *, int32_t);
size_t llama_state_seq_get_data(void *, uint8_t *, size_t, int32_t);
size_t llama_state_seq_set_data(void *, const uint8_t *, size_t, int32_t);
"""
    state = ()

    @staticmethod
    def weights(p, repack, whole_windows):
        p.use_extra_bufts = repack

    @staticmethod
    def attention(c, flash, whole_windows):
        c.flash_attn_type, c.swa_full = flash, whole_windows
        c.kv_unified = False  # sequences have memory of their own, as where a server is told how many

    @staticmethod
    def clear(llama, context):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)

    @staticmethod
    def free(llama, model):
        llama.llama_model_free(model)


def library():
    if path := os.environ.get("LLAMA_LIB"):
        return path
    folder = pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent
    return str(next(folder.glob("xllamacpp*.so")))


peer = Ik if hasattr(ctypes.CDLL(library(), os.RTLD_LAZY), "llama_kv_cache_clear") else LlamaCpp
ffi = FFI()
ffi.cdef(peer.structures + """
struct llama_model_params llama_model_default_params(void);
struct llama_context_params llama_context_default_params(void);
void llama_backend_init(void);
void *llama_model_load_from_file(const char *, struct llama_model_params);
void *llama_init_from_model(void *, struct llama_context_params);
void llama_free(void *);
llama_batch llama_batch_init(int32_t, int32_t, int32_t);
int32_t llama_decode(void *, llama_batch);
float *llama_get_logits_ith(void *, int32_t);
void *llama_model_get_vocab(void *); int32_t llama_vocab_n_tokens(void *);
typedef void (*log_callback)(int, const char *, void *); void llama_log_set(log_callback, void *);
""")

llama = ffi.dlopen(library(), ffi.RTLD_LAZY | ffi.RTLD_GLOBAL)
said = []


@ffi.callback("void(int, const char *, void *)")
def log(level, text, _):
    if level >= 3 or b"KV buffer size" in ffi.string(text):
        said.append(ffi.string(text).decode(errors="replace"))


llama.llama_log_set(log, ffi.NULL)
llama.llama_backend_init()


class Model:
    """A model and one context of it. By default it computes in floats as far as the file does, with a float cache."""

    def __init__(self, file, context, batch=None, sequences=1, threads=1, kv=0, repack=False, flash=0, swa_full=True):
        p = llama.llama_model_default_params()
        p.n_gpu_layers = 0
        peer.weights(p, repack, swa_full)
        self.model = llama.llama_model_load_from_file(str(file).encode(), p)
        if self.model == ffi.NULL:
            sys.exit(f"{file}: {' '.join(said[-3:])}")
        c = llama.llama_context_default_params()
        c.n_ctx, c.n_seq_max = context, sequences
        c.n_batch = c.n_ubatch = self.step = batch or context
        c.n_threads = c.n_threads_batch = threads
        c.type_k = c.type_v = kv
        peer.attention(c, flash, swa_full)
        self.context = llama.llama_init_from_model(self.model, c)
        if self.context == ffi.NULL:
            sys.exit(f"{file}: {' '.join(said[-3:])}")
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.batch = llama.llama_batch_init(self.step, 0, 1)

    def decode(self, rows):
        """Computes rows of (token, position, sequence, whether its logits are wanted)."""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = token, position, 1, sequence, wanted
        if code := llama.llama_decode(self.context, b):
            sys.exit(f"llama_decode: {code} {' '.join(said[-3:])}")

    def row(self, i):
        return np.frombuffer(ffi.buffer(llama.llama_get_logits_ith(self.context, i), 4 * self.vocabulary), np.float32)

    def logits(self, tokens, start=0):
        """Yields the logits behind each token from start on."""
        for low in range(0, len(tokens), self.step):
            part = tokens[low:low + self.step]
            self.decode([(int(t), low + i, 0, low + i >= start) for i, t in enumerate(part)])
            for i in range(max(0, start - low), len(part)):
                yield self.row(i)

    def clear(self):
        peer.clear(llama, self.context)

    def close(self):
        llama.llama_free(self.context)
        peer.free(llama, self.model)


def write_logits(folder, files):
    for file in map(pathlib.Path, files):
        tokens = [int(t) for t in (file.parent / "tokens.txt").read_text().split()]
        m = Model(file, 256)
        rows = 65536 // (4 * m.vocabulary)
        np.array(list(m.logits(tokens[:rows]))).astype("<f4").tofile(pathlib.Path(folder) / (file.stem + ".logits"))
        m.close()


def quality(base, file):
    """Mean divergence from saved log-probabilities: llama.cpp as it is by default, with an f16 cache."""
    with open(base, "rb") as f:
        magic, context, vocabulary, windows = struct.unpack("<8sIii", f.read(20))
        tokens = np.frombuffer(f.read(4 * context * windows), "<i4").reshape(windows, context)
        m = Model(file, context, batch=512, threads=os.cpu_count(), kv=1, repack=True, flash=-1)
        divergence, same, width = [], 0, 8 + 2 * ((vocabulary + 1) // 2 * 2)
        for window in tokens:
            m.clear()
            for logits in m.logits(window[:-1], context // 2):
                raw = f.read(width)
                scale, least = struct.unpack("<ff", raw[:8])
                p = scale * np.frombuffer(raw, "<u2", vocabulary, 8).astype(np.float64) + least
                q = logits.astype(np.float64)
                q -= q.max()
                q -= np.log(np.exp(q).sum())
                kept = p > -16
                divergence.append(max(0.0, float((np.exp(p[kept]) * (p[kept] - q[kept])).sum())))
                same += int(p.argmax() == q.argmax())
    d = np.array(divergence)
    return {"positions": len(d), "kl_mean": d.mean(), "kl_error": d.std(ddof=1) / np.sqrt(len(d)), "kl_p99": np.quantile(d, 0.99),
            "same_top": same / len(d)}


def speed(file, repack):
    """Each figure is the median of REPEAT, three by default."""
    r, result, repeat = np.random.default_rng(1), {}, int(os.environ.get("REPEAT", 3))
    m = Model(file, 16 * 640, batch=512, sequences=16, threads=os.cpu_count(), kv=1, repack=repack, flash=-1)
    draw = lambda n: [int(t) for t in r.integers(1000, 20000, n)]

    def rate(tokens, work):
        began = time.perf_counter()
        work()
        return tokens / (time.perf_counter() - began)

    def prompt(text):
        m.clear()
        m.decode([(t, i, 0, i == len(text) - 1) for i, t in enumerate(text)])
        m.row(len(text) - 1)

    def steps(n, start, count):
        for i in range(count):
            m.decode([(1000 + s, start + i, s, 1) for s in range(n)])
            for s in range(n):
                m.row(s)

    prompt(draw(512 if repeat > 1 else 64))
    result["prompt_512"] = statistics.median(rate(512, lambda: prompt(draw(512))) for _ in range(repeat))
    for n, count in ((1, 16), (4, 8), (16, 8)):
        m.clear()
        for s in range(n):
            m.decode([(t, i, s, i == 31) for i, t in enumerate(draw(32))])
        steps(n, 32, 1)
        result[f"decode_{n}"] = statistics.median(rate(n * count, lambda: steps(n, 33 + k * count, count)) for k in range(repeat))
    m.close()
    return result


def bursts(file, repack):
    """One sequence, a burst of N tokens at a time: another program can have its turn between two of them."""
    m, r = Model(file, 640, batch=512, threads=os.cpu_count(), kv=1, repack=repack, flash=-1), np.random.default_rng(1)
    for line in sys.stdin:
        kind, n = line.split()[0], int(line.split()[1])
        text = [(int(t), i, 0, 0) for i, t in enumerate(r.integers(1000, 20000, n if kind == "prompt" else 32))]
        m.clear()
        began = time.perf_counter()
        m.decode(text[:-1] + [text[-1][:3] + (1,)])
        m.row(len(text) - 1)
        if kind == "decode":
            for i in range(n + 1):
                m.decode([(1000, 32 + i, 0, 1)])
                m.row(0)
                began = time.perf_counter() if i == 0 else began  # the first is not counted
        print(n / (time.perf_counter() - began), flush=True)


def long(file, length=8192, sequences=16, steps=24):
    """Windows keep what they see, as in llama.cpp's server. One sequence is read, and its state copied to the others."""
    m = Model(file, sequences * (length + 64), batch=512, sequences=sequences, threads=os.cpu_count(), kv=1, repack=True, flash=-1, swa_full=False)
    cache = sum(float(x) for x in re.findall(r"KV buffer size = +([0-9.]+) MiB", " ".join(said)))
    text = [int(t) for t in np.random.default_rng(2).integers(1000, 20000, length)]
    began = time.perf_counter()
    for _ in m.logits(text, length - 1):
        pass
    result = {"prompt_8192": length / (time.perf_counter() - began)}
    state = ffi.new("uint8_t[]", llama.llama_state_seq_get_size(m.context, 0, *peer.state))
    llama.llama_state_seq_get_data(m.context, state, len(state), 0, *peer.state)
    for s in range(1, sequences):
        if not llama.llama_state_seq_set_data(m.context, state, len(state), s, *peer.state):
            sys.exit(f"state of sequence {s} was not taken: {' '.join(said[-3:])}")

    def step(i):
        m.decode([(1000 + s, length + i, s, 1) for s in range(sequences)])
        m.row(sequences - 1)

    step(0)
    began = time.perf_counter()
    for i in range(steps):
        step(1 + i)
    result["decode_16"] = sequences * steps / (time.perf_counter() - began)
    return result | {"cache": cache * 2**20}


def serve(file):
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.n_batch, p.n_ubatch, p.port = file, 16 * 512, 16, 512, 512, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = os.cpu_count()
    p.warmup, p.endpoint_metrics = True, False
    server = xllamacpp.Server(p)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["logits", folder, *files]:
            write_logits(folder, files)
        case ["quality", base, file]:
            print(json.dumps(quality(base, file), indent=1))
        case ["speed", file, *repacked]:
            print(json.dumps(speed(file, bool(repacked)), indent=1))
        case ["bursts", file, *repacked]:
            bursts(file, bool(repacked))
        case ["long", file]:
            print(json.dumps(long(file), indent=1))
        case ["serve", file]:
            serve(file)
        case _:
            sys.exit(__doc__)
