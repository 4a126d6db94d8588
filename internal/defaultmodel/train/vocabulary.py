"""The model's own byte-level BPE vocabulary and the layout of a chat prompt."""

from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIALS = [END_OF_TEXT, IM_START, IM_END]  # ids 0, 1, 2
SIZE = 1536  # tokens; a multiple of 32, so that kernels meet whole tiles of rows

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)


def learn(texts):
    """Trains the vocabulary; the split into words is GPT-2's."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=SPECIALS, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tok.train_from_iterator(texts, trainer)
    if tok.get_vocab_size() != SIZE:
        raise SystemExit(f"the corpus gives only {tok.get_vocab_size()} tokens, want {SIZE}")
    return tok


class Encoder:
    """Turns conversations into token ids and loss weights."""

    # How much each kind of token counts in the loss. Questions count a little,
    # so that the model can go on when a request ignores the end token.
    ANSWER, OTHER, DOCUMENT = 1.0, 0.03, 0.2

    def __init__(self, tok):
        self.tok = tok
        self.newline = tok.encode("\n").ids
        self._cache = {}

    def text(self, s):
        ids = self._cache.get(s)
        if ids is None:
            ids = self.tok.encode(s, add_special_tokens=False).ids
            if min(ids, default=3) < 3:
                raise ValueError(f"text {s!r} contains a special token")
            if len(self._cache) < 200_000:
                self._cache[s] = ids
        return ids

    def conversation(self, messages):
        """(ids, weights): weights[i] is what predicting ids[i] counts."""
        ids, weights = [], []

        def put(new, weight):
            ids.extend(new)
            weights.extend([weight] * len(new))

        for role, content in messages:
            answer = self.ANSWER if role == "assistant" else self.OTHER
            head = self.text(role + "\n")
            put([1] + head, self.OTHER)
            # The role line and the text are one stretch for the tokenizer.
            put(self.text(role + "\n" + content.strip())[len(head):] + [2], answer)
            put(self.newline, self.OTHER)
        return ids, weights

    def document(self, text):
        ids = self.text(text) + [0]
        return ids, [self.DOCUMENT] * len(ids)
