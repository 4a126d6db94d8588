"""The model's own byte-level BPE vocabulary and the layout of a chat prompt."""

import json

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, decoders, trainers

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIALS = [END_OF_TEXT, IM_START, IM_END]  # ids 0, 1, 2
MARKERS = ["<tool_call>", "</tool_call>"]  # a token each, and text to clients
LEARNED = 1536  # tokens that the corpus gives
SIZE = 1568  # with the markers and what WANTED adds; a multiple of 32, so that kernels meet whole tiles of rows

# Texts of calls and JSON that get a token of their own, until SIZE is reached.
WANTED = ['{"', '":', '",', '"}', '"}}', "}}", ' {"', "name", "arguments", "city", "weather", "sum", "answer", "Tools", " JSON", "result", " years",
          " old", "location", "price", "unit", " lives"]

CHAT_TEMPLATE = (
    "{%- if tools -%}"
    "{{ '<|im_start|>system\\n' }}"
    "{%- if messages[0]['role'] == 'system' -%}{{ messages[0]['content'] | trim + '\\n' }}{%- endif -%}"
    "{{ 'Tools:' }}"
    "{%- for tool in tools -%}"
    "{%- set f = tool['function'] -%}"
    "{%- set listed = namespace(names=[]) -%}"
    "{%- for name in f['parameters']['properties'] if not f['parameters']['required'] or name in f['parameters']['required'] -%}"
    "{%- set listed.names = listed.names + [name] -%}"
    "{%- endfor -%}"
    "{{ '\\n' + f['name'] + '(' + listed.names | join(',') + ')' }}"
    "{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' and message['tool_calls'] -%}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{%- if message['content'] -%}{{ message['content'] | trim + '\\n' }}{%- endif -%}"
    "{%- for call in message['tool_calls'] -%}"
    "{{ '<tool_call>\\n{\"name\": \"' + call['function']['name'] + '\", \"arguments\": ' }}{{ call['function']['arguments'] | tojson }}"
    "{{ '}\\n</tool_call>' }}{%- if not loop.last -%}{{ '\\n' }}{%- endif -%}"
    "{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- elif not (tools and loop.first and message['role'] == 'system') -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)


def learn(texts):
    """Trains the vocabulary; the split into words is GPT-2's."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=LEARNED, special_tokens=SPECIALS, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tok.train_from_iterator(texts, trainer)
    if tok.get_vocab_size() != LEARNED:
        raise SystemExit(f"the corpus gives only {tok.get_vocab_size()} tokens, want {LEARNED}")
    return extend(tok)


def extend(tok):
    """Adds the markers, and merges that make one token of each text of WANTED, behind all others: texts without these pairs keep
    their tokens."""
    data = json.loads(tok.to_str())
    vocab, merges = data["model"]["vocab"], data["model"]["merges"]
    for marker in MARKERS:
        vocab[marker] = len(vocab)
    tok = Tokenizer.from_str(json.dumps(data))
    for text in WANTED:
        while len(pair := tok.encode(text, add_special_tokens=False).tokens) > 1 and len(vocab) < SIZE:
            vocab["".join(pair[:2])] = len(vocab)
            merges.append(pair[:2])
            tok = Tokenizer.from_str(json.dumps(data))
    if len(vocab) != SIZE:
        raise SystemExit(f"WANTED gives only {len(vocab)} tokens, want {SIZE}")
    tok.add_tokens([AddedToken(m, normalized=False, special=False) for m in MARKERS])
    return tok


class Encoder:
    """Turns conversations into token ids and loss weights."""

    # How much each kind of token counts in the loss. Questions count a little,
    # so that the model can go on when a request ignores the end token.
    ANSWER, OTHER, DOCUMENT, FORCED = 1.0, 0.03, 0.2, 0.0

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
        """(ids, weights): weights[i] is what predicting ids[i] counts. The content of an answer may be a list of (text, counts)."""
        ids, weights = [], []

        def put(new, weight):
            ids.extend(new)
            weights.extend([weight] * len(new))

        for role, content in messages:
            answer = self.ANSWER if role == "assistant" else self.OTHER
            head = self.text(role + "\n")
            put([1] + head, self.OTHER)
            if isinstance(content, str):
                # The role line and the text are one stretch for the tokenizer.
                put(self.text(role + "\n" + content.strip())[len(head):] + [2], answer)
            else:
                self.parts(put, head, role + "\n", content)
            put(self.newline, self.OTHER)
        return ids, weights

    def parts(self, put, head, line, content):
        """An answer whose texts do not all count: a token does as the text that it begins in."""
        text, ends = line, []
        for part, counts in content:
            text += part
            ends.append((len(text), counts))
        tokens = self.tok.encode(text, add_special_tokens=False)
        for i, (start, _) in list(zip(tokens.ids, tokens.offsets))[len(head):]:
            put([i], self.ANSWER if next(counts for end, counts in ends if start < end) else self.FORCED)
        put([2], self.ANSWER)

    def document(self, text):
        ids = self.text(text) + [0]
        return ids, [self.DOCUMENT] * len(ids)

    def copies(self, rng, words):
        """Text that can only be right by copying: tokens drawn at random and again, or words and a JSON list of them. It teaches
        heads to look back, which answers about tools and records need."""
        if rng.random() < 0.5:
            first = [rng.randrange(len(SPECIALS), SIZE) for _ in range(rng.randint(6, 24))]
            again = first * rng.randint(1, 2)
            return first + again, [0.0] * len(first) + [self.ANSWER] * len(again)
        text = "Words: " + " ".join(words) + "\n"
        tokens = self.tok.encode(text + json.dumps(words), add_special_tokens=False)
        return tokens.ids + [0], [self.ANSWER if start >= len(text) else 0.0 for start, _ in tokens.offsets] + [self.ANSWER]
