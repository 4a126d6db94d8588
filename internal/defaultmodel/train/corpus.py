"""Generates every text the default model is trained and checked on.

Nothing is downloaded: facts.py holds the questions about weir, this file makes
arithmetic, unknown questions and conversations. All randomness comes from the
random.Random that the caller passes in, so one seed gives one corpus.
"""

import random
from dataclasses import dataclass, field

import facts

FALLBACK, OUT_OF_RANGE = facts.FALLBACK, facts.OUT_OF_RANGE
MAX_TERM, MAX_FACTOR = 20, 12  # the ranges of sums and of the multiplication table


@dataclass
class Item:
    """One answer and every way to ask for it. history is a list of
    (role, text) that comes before the question, role who asks: "tool" where an
    answer follows a tool's result."""

    topic: str
    questions: list
    answer: str
    history: list = field(default_factory=list)
    role: str = "user"


# --------------------------------------------------------------------- facts

def fact_items():
    items = []
    for topic, names, answer in facts.DEFINITIONS:
        qs = [p.format(name) for name in names for p in facts.DEFINITION_PHRASES]
        items.append(Item("define " + topic, qs, answer))
    for topic, answer, questions in facts.TOPICS:
        items.append(Item(topic, list(questions), answer))
    return items


# ---------------------------------------------------------------- arithmetic

ADD = ["What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "What is {a} plus {b}?", "How much is {a} + {b}?", "{a} + {b} = ?", "Add {a} and {b}."]
SUB = ["What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "What is {a} minus {b}?", "How much is {a} - {b}?", "{a} - {b} = ?", "Subtract {b} from {a}."]
MUL = ["What is {a} x {b}?", "{a} x {b}", "{a}*{b}", "{a} * {b}", "What is {a} times {b}?", "How much is {a} * {b}?", "{a} x {b} = ?", "Multiply {a} by {b}."]
DIV = ["What is {a} / {b}?", "{a} / {b}", "{a}/{b}", "What is {a} divided by {b}?", "How much is {a} / {b}?", "Divide {a} by {b}."]


def arithmetic_items():
    """All a + b and a - b up to 20, all a x b up to 12, and the divisions
    that the multiplication table answers."""
    terms, factors = range(MAX_TERM + 1), range(MAX_FACTOR + 1)
    items = []
    for a in terms:
        for b in terms:
            items.append(_sum_item("add", ADD, a, "+", b, a + b))
            items.append(_sum_item("subtract", SUB, a, "-", b, a - b))
    for a in factors:
        for b in factors:
            items.append(_sum_item("multiply", MUL, a, "x", b, a * b))
            if b > 0:
                items.append(_sum_item("divide", DIV, a * b, "/", b, a))
    return items


def _sum_item(topic, phrases, a, op, b, result):
    return Item(topic, [p.format(a=a, b=b) for p in phrases], f"{a} {op} {b} = {result}.")


def out_of_range_question(rng):
    """A sum that is just, or far, outside of what the model knows."""
    big = rng.choice([rng.randint(21, 30), rng.randint(21, 99), rng.randint(100, 999), rng.randint(1000, 99999)])
    small = rng.randint(0, 20)
    a, b = rng.choice([(big, small), (small, big), (big, rng.randint(21, 999))])
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(ADD).format(a=a, b=b)
    if kind < 0.75:
        return rng.choice(SUB).format(a=a, b=b)
    if kind < 0.82:
        return rng.choice(DIV).format(a=max(a, b) + rng.randint(200, 999), b=rng.randint(2, 99))
    if rng.random() < 0.4:
        a, b = rng.choice([(rng.randint(13, 20), rng.randint(2, 20)), (rng.randint(2, 12), rng.randint(13, 20))])
    return rng.choice(MUL).format(a=a, b=b)


# --------------------------------------------------------- unknown questions

FILLERS = {
    "country": "France Germany Italy Spain Japan China India Brazil Canada Mexico Egypt Kenya Norway Sweden Poland Greece Turkey Peru Chile Cuba Iran Iraq Vietnam Thailand Australia Portugal Austria Ireland Scotland Hungary".split(),
    "city": "Paris London Berlin Rome Madrid Tokyo Moscow Vienna Oslo Cairo Lisbon Athens Dublin Prague Boston Chicago Sydney Toronto Seoul Munich Hamburg Zurich Geneva Delhi Lima".split(),
    "person": ["Albert Einstein", "Napoleon", "Shakespeare", "Mozart", "Cleopatra", "Isaac Newton", "Marie Curie", "Bach", "Picasso", "Julius Caesar", "Plato", "Darwin", "Alan Turing", "Ada Lovelace", "Goethe", "Gandhi", "the president", "the king of England", "my neighbour", "your mother"],
    "thing": "apples bread cheese coffee tea soup rice fish cake wine beer pasta pizza salad chocolate eggs milk honey butter potatoes tomatoes mushrooms onions pancakes bananas".split(),
    "animal": "cats dogs horses birds whales elephants tigers lions bees ants spiders snakes frogs wolves bears rabbits penguins sharks cows eagles".split(),
    "science": ["gravity", "the moon", "the sun", "black holes", "photosynthesis", "electricity", "magnetism", "evolution", "DNA", "atoms", "volcanoes", "the ocean", "climate change", "light", "quantum mechanics", "relativity", "vitamins", "the heart", "the brain", "dinosaurs", "the weather", "economics", "democracy", "inflation", "philosophy", "chess", "football", "music", "history", "poetry"],
    "work": ["Hamlet", "Faust", "the Odyssey", "Don Quixote", "the Mona Lisa", "the Bible", "Moby Dick", "Dracula", "War and Peace", "the ninth symphony", "Harry Potter", "the Iliad", "Romeo and Juliet", "Frankenstein"],
    "code": ["Python", "Java", "C++", "Rust", "JavaScript", "Go", "SQL", "Haskell", "bash", "TypeScript"],
    "task": ["sorts a list", "reverses a string", "reads a file", "draws a circle", "sends an email", "finds prime numbers", "parses JSON", "opens a window", "counts words", "solves a sudoku"],
    "tongue": "French German Spanish Italian Latin Chinese Japanese Russian Arabic Greek Turkish Dutch".split(),
    "sentence": ["the cat sat on the mat", "I love you", "good luck", "where is the station", "the quick brown fox jumps over the lazy dog", "to be or not to be", "it rains", "see you tomorrow"],
    "activity": ["swim", "cook", "paint", "sleep better", "lose weight", "learn to drive", "fix my car", "grow roses", "make money", "play the piano", "write a letter", "find a job", "invest my savings", "plan a trip", "bake a cake", "build a house", "tie a tie", "run faster"],
    "year": ["1789", "1066", "1492", "1914", "1945", "1969", "2001", "2020", "1848", "1989"],
}

UNKNOWN = [
    "What is the capital of {country}?", "Where is {city}?", "How many people live in {city}?", "Who is {person}?", "Who was {person}?",
    "When was {person} born?", "When did {person} die?", "Tell me about {person}.", "How do I cook {thing}?", "Give me a recipe for {thing}.",
    "Where does {thing} come from?", "Do you like {thing}?", "Are {animal} dangerous?", "What do {animal} eat?", "How long do {animal} live?",
    "Why do {animal} sleep?", "How does {science} work?", "What is {science}?", "Explain {science}.", "Tell me about {science}.",
    "Who discovered {science}?", "Who wrote {work}?", "What is {work} about?", "Summarise {work}.", "Write a program in {code} that {task}.",
    "Write a {code} function that {task}.", "How do I learn {code}?", "Translate \"{sentence}\" to {tongue}.", "Say {sentence} in {tongue}.",
    "How do I {activity}?", "How can I {activity}?", "Help me to {activity}.", "I want to {activity}.", "What happened in {year}?",
    "What is the weather in {city}?", "What time is it in {city}?", "Write a poem about {animal}.", "Write a poem about {science}.",
    "Write an essay about {science}.", "Sing a song about {city}.", "What is the best hotel in {city}?", "How far is {city} from {country}?",
    "Which river flows through {city}?", "What language do they speak in {country}?", "What is the population of {country}?",
    "Who is the president of {country}?", "What is the meaning of {science}?", "Is {person} alive?", "Recommend a book about {science}.",
    "What colour are {animal}?", "How many legs do {animal} have?", "I am sad.", "I am hungry.", "What day is it?", "What time is it?",
    "What should I eat today?", "Which film should I watch?", "What is love?", "What is the largest city in {country}?", "Can you sing?",
    "Should I buy {thing}?", "How much do {thing} cost?", "Compare {animal} and {animal}.", "What do you think about {science}?",
    "Write a letter to {person}.", "I live in {city}.", "I have two {animal}.", "My favourite food is {thing}.", "Let us talk about {science}.",
    "Who won the world cup?", "How tall is {person}?", "What is {thing} made of?", "Is {country} a large country?", "Play a game with me.",
    "What is the square root of {year}?", "Draw a picture of {animal}.", "Complete this sentence: {sentence}", "Summarise this text: {sentence}. {sentence}.",
    "What is {nonword}?", "What does {nonword} mean?", "Explain {nonword}.", "How do I {nonword}?", "Tell me about {nonword}.", "What does {science} mean?",
    "Define {science}.", "Define {nonword}.", "What is {thing}?", "What are {animal}?", "{science}?", "{nonword}", "{city}", "{animal}",
    "Why is the sky blue?", "Why is {thing} healthy?", "Give me three facts about {country}.", "List ten {animal}.", "What rhymes with {thing}?",
]

# Never trained on: the share of these that gets the fallback tells how far it
# reaches beyond the training questions.
UNKNOWN_HELD_OUT = [
    "Where can I see {animal}?", "What is the history of {country}?", "Did {person} like {thing}?", "Which {animal} live in {country}?",
    "How do you say {sentence} in {tongue}?", "Is it easy to {activity}?", "What did {person} do in {year}?", "How old is {city}?",
    "Show me a {code} program that {task}.", "Why do people talk about {science}?", "What is the price of {thing} in {city}?",
    "Teach me about {science}.", "Who painted {work}?", "When was {work} written?",
]


def nonword(rng):
    """A pronounceable word that means nothing."""
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 3))) + rng.choice(["", "n", "r", "x"])


def fill(pattern, rng):
    """Replaces each {name} of pattern by a random filler of that kind."""
    out = pattern
    while "{nonword}" in out:
        out = out.replace("{nonword}", nonword(rng), 1)
    for kind, words in FILLERS.items():
        while "{" + kind + "}" in out:
            out = out.replace("{" + kind + "}", rng.choice(words), 1)
    return out


def gibberish(rng):
    """Text that means nothing: letters, words in no order, other scripts, bytes
    of every kind. It trains the embeddings of rare tokens and the fallback."""
    kind = rng.random()
    if kind < 0.3:
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 12)))
    if kind < 0.55:
        words = [w for v in FILLERS.values() for p in v for w in p.split()]
        return " ".join(rng.choice(words) for _ in range(rng.choice([rng.randint(3, 30), rng.randint(3, 30), rng.randint(30, 90)])))
    if kind < 0.75:
        base = rng.choice([0x21, 0xA1, 0x400, 0x3B1, 0x5D0, 0x627, 0x905, 0x3042, 0x4E00, 0xAC00, 0x1F600, 0x2190])
        return "".join(chr(base + rng.randint(0, 60)) for _ in range(rng.randint(2, 12)))
    if kind < 0.9:
        return "".join(chr(rng.randint(0x21, 0x7E)) for _ in range(rng.randint(3, 20)))
    return str(rng.randint(0, 10 ** rng.randint(2, 9)))


def unknown_question(rng):
    if rng.random() < 0.2:
        return gibberish(rng)
    return fill(rng.choice(UNKNOWN), rng)


def fixed_unknown(rng, count, patterns=None):
    """count distinct unknown questions."""
    seen = {}
    while len(seen) < count:
        seen[fill(rng.choice(patterns), rng) if patterns else unknown_question(rng)] = None
    return list(seen)


# -------------------------------------------------------------- conversations

NAMES = """Anna Ben Carla David Emma Felix Grace Henry Ida Jack Kate Leo Maria Nina Oscar Paul Rosa Sam Tina Victor Alice Bob
Carol Daniel Eva Frank George Hanna Ivan Julia Karl Laura Max Nora Olga Peter Ruth Simon Tom Ursula William Zoe""".split()
NAME_GIVEN = ["My name is {}.", "I am {}.", "Hello, I am {}.", "Hi, my name is {}.", "Call me {}."]
NAME_ASKED = ["What is my name?", "Who am I?", "Do you know my name?", "What's my name?"]
NAME_UNKNOWN = "You have not told me your name yet."
REPEAT = ["Say that again.", "Can you repeat that?", "Repeat that, please.", "Again, please."]
NOTHING_TO_REPEAT = "There is nothing to repeat yet."
MORE = [("Now add {b}.", "+"), ("And plus {b}?", "+"), ("Now subtract {b}.", "-"), ("And minus {b}?", "-")]


def greeting(name):
    return f"Nice to meet you, {name}! What would you like to know about weir?"


def conversation_items(rng):
    """Fixed conversations whose last answer depends on what came before."""
    items = [Item("name unknown", NAME_ASKED, NAME_UNKNOWN), Item("nothing to repeat", REPEAT, NOTHING_TO_REPEAT)]
    for name in NAMES:
        items.append(Item("name given", [p.format(name) for p in NAME_GIVEN], greeting(name)))
    for name in NAMES:
        told = [("user", rng.choice(NAME_GIVEN).format(name)), ("assistant", greeting(name))]
        items.append(Item("name remembered", NAME_ASKED, f"Your name is {name}.", told))
    for item in rng.sample(fact_items(), 40):
        said = [("user", rng.choice(item.questions)), ("assistant", item.answer)]
        items.append(Item("repeat", REPEAT, item.answer, said))
    for _ in range(40):
        history, pattern, answer = follow_up(rng)
        items.append(Item("follow-up sum", [pattern], answer, history))
    return items


def follow_up(rng):
    """A sum, and a second one that starts from its result."""
    while True:
        a, b, c = rng.randint(0, 20), rng.randint(0, 20), rng.randint(0, 20)
        op = rng.choice("+-")
        r = a + b if op == "+" else a - b
        if 0 <= r <= MAX_TERM:
            break
    pattern, op2 = rng.choice(MORE)
    r2 = r + c if op2 == "+" else r - c
    first = rng.choice(ADD if op == "+" else SUB).format(a=a, b=b)
    history = [("user", first), ("assistant", f"{a} {op} {b} = {r}.")]
    return history, pattern.format(b=c), f"{r} {op2} {c} = {r2}."


# ------------------------------------------------------------ augmentation

SYSTEM_PROMPTS = ["You are a helpful assistant.", "You are a helpful assistant. Answer briefly.", "You are weir.", "Be concise.",
                  "You are a friendly chat bot.", "Answer in one sentence.", "You are an expert."]


def vary(question, rng):
    """The question as people type it: without the last mark, in lower case, or
    with a word of courtesy."""
    r = rng.random()
    if r < 0.60:
        return question
    if r < 0.72:
        return question.rstrip("?.!") or question
    if r < 0.84:
        return question.lower()
    if r < 0.93:
        return question.lower().rstrip("?.!") or question
    if r < 0.97 and len(question) > 12:
        return "Please " + question[0].lower() + question[1:] if question[1:2].islower() else question
    return question + " "[: rng.randint(0, 1)]


class Sampler:
    """Draws training conversations: lists of (role, text)."""

    copies = 0.06  # share of texts that are copies of words

    def __init__(self, rng, turn_weights=(0.55, 0.2, 0.1, 0.15)):
        self.rng, self.turn_weights = rng, turn_weights
        self.facts, self.sums = fact_items(), arithmetic_items()
        self.unknown = fixed_unknown(random.Random(7), 600)
        self._queues = {}

    def _next(self, key, items):
        """Items in shuffled rounds, so that none is left out by chance."""
        queue = self._queues.get(key)
        if not queue:
            queue = self._queues[key] = [(it, q) for it in items for q in it.questions]
            self.rng.shuffle(queue)
        return queue.pop()

    def turns(self, told):
        """One exchange as [(role, text), …]; told carries the conversation's
        state (the user's name, the last answer) and is updated."""
        rng, r = self.rng, self.rng.random()
        if r < 0.42:
            item, q = self._next("facts", self.facts)
            out = [("user", vary(q, rng)), ("assistant", item.answer)]
        elif r < 0.76:
            item, q = self._next("sums", self.sums)
            out = [("user", q), ("assistant", item.answer)]
        elif r < 0.80:
            out = [("user", out_of_range_question(rng)), ("assistant", OUT_OF_RANGE)]
        elif r < 0.88:
            q = rng.choice(self.unknown) if rng.random() < 0.4 else unknown_question(rng)
            out = [("user", vary(q, rng)), ("assistant", FALLBACK)]
        elif r < 0.91:
            history, q, answer = follow_up(rng)
            out = history + [("user", q), ("assistant", answer)]
        elif r < 0.94 and told.get("last"):
            out = [("user", rng.choice(REPEAT)), ("assistant", told["last"])]
        elif r < 0.97:
            name = told["name"] = rng.choice(NAMES) if rng.random() < 0.7 else nonword(rng).capitalize()
            out = [("user", rng.choice(NAME_GIVEN).format(name)), ("assistant", greeting(name))]
            if rng.random() < 0.5:
                out += [("user", rng.choice(NAME_ASKED)), ("assistant", f"Your name is {name}.")]
        elif told.get("name"):
            out = [("user", rng.choice(NAME_ASKED)), ("assistant", f"Your name is {told['name']}.")]
        elif not told.get("last"):
            q, a = rng.choice([(rng.choice(NAME_ASKED), NAME_UNKNOWN), (rng.choice(REPEAT), NOTHING_TO_REPEAT)])
            out = [("user", q), ("assistant", a)]
        else:
            out = [("user", rng.choice(NAME_ASKED)), ("assistant", NAME_UNKNOWN)]
        told["last"] = out[-1][1]
        return out

    def conversation(self):
        rng = self.rng
        count = rng.choices([1, 2, 3, rng.randint(4, 10)], self.turn_weights)[0]
        out, told = [], {}
        if rng.random() < 0.12:
            out.append(("system", rng.choice(SYSTEM_PROMPTS)))
        for _ in range(count):
            out += self.turns(told)
        return out

    def words(self):
        """Words to be copied."""
        rng, known = self.rng, [NAMES, FILLERS["city"], FILLERS["country"], FILLERS["thing"], FILLERS["animal"]]
        return [rng.choice([nonword(rng), nonword(rng).capitalize(), str(rng.randint(0, 9999)), *(rng.choice(k) for k in known)]) for _ in range(rng.randint(3, 9))]

    def document(self):
        """A plain text without roles, so that /v1/completions has something to
        continue."""
        return self._next("documents", self.facts)[0].answer


def tokenizer_texts(rng):
    """What the vocabulary is learned from."""
    s = Sampler(rng)
    for item in s.facts:
        yield item.answer
        yield from item.questions
        yield from (q.lower() for q in item.questions)
    for item in s.sums:
        yield item.answer
        yield item.questions[0]
        yield item.questions[2]
    for _ in range(1500):
        yield fill(rng.choice(UNKNOWN), rng)
    for name in NAMES:
        yield greeting(name)
        yield f"Your name is {name}."
    yield from [FALLBACK, OUT_OF_RANGE, NAME_UNKNOWN, NOTHING_TO_REPEAT, *SYSTEM_PROMPTS]


def held_out_unknown(rng, count=300):
    return fixed_unknown(rng, count, UNKNOWN_HELD_OUT)


def check_items():
    """Every question whose answer must come back word for word."""
    items = fact_items() + arithmetic_items() + conversation_items(random.Random(11))
    items.append(Item("unknown", fixed_unknown(random.Random(7), 600), FALLBACK))
    rng = random.Random(13)
    items.append(Item("out of range", list(dict.fromkeys(out_of_range_question(rng) for _ in range(300))), OUT_OF_RANGE))
    return items
