#!/usr/bin/env python3
"""llama.cpp's own MTP heads: logits of tokens.txt beside each model, as engine/llm/testdata/decoders.py defines them.

    llamacpp_mtp.py FOLDER MODEL.gguf…     into FOLDER/NAME.mtp (float32, [tokens][vocabulary])

Needs what llamacpp.py needs. The last row is chained: its hidden state is what the head made of the row before.
"""
import pathlib, sys
import numpy as np
from llamacpp import Model, ffi, llama, peer, said

CHAINED = 5  # as in decoders.py
ffi.cdef("""
int32_t llama_model_n_embd(void *);
void _Z26llama_set_embeddings_nextnP13llama_contextbb(void *, bool, bool);
float *_Z30llama_get_embeddings_nextn_ithP13llama_contexti(void *, int32_t);
""")


def with_heads(p, *_):
    p.use_extra_bufts, p.load_mtp = False, True


peer.weights = with_heads


class Context:
    """A context of a model, of the model itself or of its MTP head."""

    def __init__(self, model, size, head):
        c = llama.llama_context_default_params()
        c.n_ctx = c.n_batch = c.n_ubatch = size
        c.n_threads = c.n_threads_batch = c.n_seq_max = 1
        c.type_k = c.type_v = c.flash_attn_type = 0
        c.ctx_type = int(head)
        self.context = llama.llama_init_from_model(model, c)
        if self.context == ffi.NULL:
            sys.exit(" ".join(said[-3:]))
        self.width = llama.llama_model_n_embd(model)
        llama._Z26llama_set_embeddings_nextnP13llama_contextbb(self.context, True, False)
        self.batch = llama.llama_batch_init(size, 0, 1)
        if head:
            self.hidden = self.batch.embd = ffi.new("float[]", size * self.width)

    def decode(self, tokens, start, hidden=None):
        b = self.batch
        b.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = int(token), start + i, 1, 0, 1
        if hidden is not None:
            ffi.memmove(self.hidden, np.ascontiguousarray(hidden, np.float32).tobytes(), hidden.size * 4)
        if code := llama.llama_decode(self.context, b):
            sys.exit(f"llama_decode: {code} {' '.join(said[-3:])}")

    def states(self, rows):
        at = llama._Z30llama_get_embeddings_nextn_ithP13llama_contexti
        return np.array([np.frombuffer(ffi.buffer(at(self.context, i), 4 * self.width), np.float32).copy() for i in range(rows)])


def logits(file):
    tokens = [int(t) for t in (file.parent / "tokens.txt").read_text().split()]
    m = Model(file, 256)
    trunk, head = Context(m.model, 256, False), Context(m.model, 256, True)
    trunk.decode(tokens, 0)
    hidden = trunk.states(len(tokens))
    row = lambda i: np.frombuffer(ffi.buffer(llama.llama_get_logits_ith(head.context, i), 4 * m.vocabulary), np.float32).copy()
    head.decode(tokens[1:], 0, hidden[:-1])
    rows = [row(i) for i in range(len(tokens) - 1)]
    last = head.states(len(tokens) - 1)[-1:]
    head.decode([CHAINED], len(tokens) - 1, last)
    return np.array(rows + [row(0)])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for file in map(pathlib.Path, sys.argv[2:]):
        logits(file).astype("<f4").tofile(pathlib.Path(sys.argv[1]) / (file.stem + ".mtp"))
