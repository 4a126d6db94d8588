"""Conversations with tools: the generator of training text.

A conversation is a list of (role, content) as the chat template writes it; the
tools stand in the system message. The content of an answer may be a list of
(text, counts): text that does not count is what a grammar forces on the model,
such as a name that the client chose, so that the model learns what follows such
text and not to write it.
"""

import json
import random
from dataclasses import dataclass

import corpus
import facts

CALL, CALL_END = "<tool_call>", "</tool_call>"


@dataclass
class Tool:
    name: str
    params: dict  # name -> JSON Schema's type; all are required

    def line(self):
        """As the chat template lists it."""
        return f"{self.name}({','.join(self.params)})"

    def request(self):
        """As clients send it."""
        properties = {p: {"type": kind} for p, kind in self.params.items()}
        return {"type": "function", "function": {"name": self.name, "parameters": {
            "type": "object", "properties": properties, "required": list(self.params)}}}


@dataclass
class Task:
    """A question that a tool answers: the call, and the sentence that its result becomes."""

    tool: Tool
    question: str
    arguments: dict
    results: list  # of (what the tool gives, what is said then)


def listing(tools, system=""):
    """The system message of a request with tools."""
    return (system + "\n" if system else "") + "Tools:\n" + "\n".join(t.line() for t in tools)


def call_text(name, arguments):
    return f"{CALL}\n" + '{"name": "' + name + '", "arguments": ' + json.dumps(arguments, ensure_ascii=False) + "}\n" + CALL_END


CITIES = corpus.FILLERS["city"] + ["New York"]
ITEMS = corpus.FILLERS["thing"]
LOOKUPS = {  # noun -> (kind of its subject, names of the parameter)
    "weather": ("city", ["city", "location"]), "temperature": ("city", ["city", "location"]), "time": ("city", ["city", "location"]),
    "population": ("city", ["city"]), "price": ("item", ["product", "item"]),
}
ARITHMETIC = {"+": ("add", corpus.ADD), "-": ("subtract", corpus.SUB), "x": ("multiply", corpus.MUL), "/": ("divide", corpus.DIV)}
WEATHERS = ["sunny", "rainy", "cloudy", "windy", "snowy", "foggy"]


def function_name(noun, rng):
    return "get_current_weather" if noun == "weather" and rng.random() < 0.15 else f"get_{noun}"


def lookup(rng, noun=None):
    """get_weather(city) and its like."""
    noun = noun or rng.choice(["weather"] * 6 + list(LOOKUPS))
    kind, names = LOOKUPS[noun]
    name, what = rng.choice(names[:1] + names), rng.choice(CITIES if kind == "city" else ITEMS)
    of = f"in {what}" if kind == "city" else f"of {what}"
    ask = [f"What is the {noun} {of}?"] * 3 + [f"What's the {noun} {of}?", f"Tell me the {noun} {of}."]
    if noun == "weather":
        ask += [f"What is the weather like {of}?", f"What's the weather like {of}?", f"How is the weather {of}?", f"What is the weather like {of} today?",
                f"What's the weather like {of} today?"]
    if noun == "time":
        ask += [f"What time is it {of}?"] * 4
    return Task(Tool(function_name(noun, rng), {name: "string"}), rng.choice(ask), {name: what}, [result(rng, noun, f"The {noun} {of} is ", what, name)])


def value(rng, noun):
    """What a tool may give, as plain text."""
    if noun in ("time", "date"):
        return f"{rng.randint(0, 23):02d}:{rng.choice(['00', '15', '30', '45'])}" if noun == "time" else rng.choice(DAYS)
    if noun == "price":
        return f"{rng.randint(1, 20)} euros"
    if noun == "population":
        return f"{rng.randint(1, 20)} million"
    if noun == "temperature":
        return f"{rng.randint(0, 30)} degrees"
    return rng.choice([rng.choice(WEATHERS), f"{rng.choice(WEATHERS)}, {rng.randint(0, 30)} degrees", f"{rng.randint(0, 30)} degrees"])


DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def result(rng, noun, sentence, what, name):
    if noun != "weather" or rng.random() < 0.65:
        text = value(rng, noun)
        return text, sentence + text + "."
    # An object: its values with their names.
    data = rng.choice([{"temperature": rng.randint(0, 30), "unit": "celsius"}, {"temperature": rng.randint(0, 30), "condition": rng.choice(WEATHERS)}])
    said = sentence[: -len("is ")].rstrip() + ": " + ", ".join(f"{k} {v}" for k, v in data.items()) + "."
    return json.dumps(data, ensure_ascii=False), said


def here(rng):
    """A tool without parameters."""
    noun, question = rng.choice([("time", "What time is it?"), ("time", "What is the time?"), ("date", "What is the date?"), ("date", "What day is it?")])
    text = value(rng, noun)
    return Task(Tool(f"get_{noun}", {}), question, {}, [(text, f"The {noun} is {text}.")])


def arithmetic(rng):
    """add(a, b), also beyond what the model can compute itself."""
    symbol = rng.choice("++-x/")
    name, phrases = ARITHMETIC[symbol]
    most = rng.choice([20] * 5 + [99] * 3 + [999] * 2)
    a, b = rng.randint(0, most), rng.randint(0, most)
    if symbol == "/":
        b = rng.randint(1, 12)
        a = b * rng.randint(1, 8)
    r = {"+": a + b, "-": a - b, "x": a * b, "/": a // max(b, 1)}[symbol]
    question, said = rng.choice(phrases).format(a=a, b=b), f"{a} {symbol} {b} = {r}."
    given = rng.choice([str(r), str(r), json.dumps({"result": r})])
    if rng.random() < 0.25:
        return Task(Tool("calculator", {"expression": "string"}), question, {"expression": f"{a} {'*' if symbol == 'x' else symbol} {b}"}, [(given, said)])
    return Task(Tool(name, {"a": "number", "b": "number"}), question, {"a": a, "b": b}, [(given, said)])


def task(rng):
    r = rng.random()
    return lookup(rng) if r < 0.66 else arithmetic(rng) if r < 0.93 else here(rng)


def with_others(tool, rng):
    """The tool among others that do not answer its question."""
    tools = [tool] if tool else []
    for _ in range(rng.choice([0, 1, 1, 2, 3] if tool else [1, 1, 2, 3])):
        other = task(rng).tool
        if not any(other.name == t.name or similar(other, t) for t in tools):
            tools.append(other)
    rng.shuffle(tools)
    return tools


GROUPS = [{"weather", "temperature"}, {"add", "subtract", "multiply", "divide", "calculator"}, {"time", "date"}]


def group(tool):
    return {i for i, g in enumerate(GROUPS) if any(w in tool.name for w in g)}


def similar(a, b):
    both = group(a) & group(b)
    return bool(both) and not (both == {1} and "calculator" not in (a.name, b.name) and a.name != b.name)


def needs_none(sampler, tools):
    """A question that none of the tools answers, and the usual answer."""
    rng = sampler.rng
    groups = set().union(*(group(t) for t in tools))
    for _ in range(50):
        talk = sampler.turns({})
        text = talk[0][1].lower()
        if 1 in groups and any(c.isdigit() for m in talk for c in m[1]):
            continue
        if any(w in text for t in tools for w in parts(t.name) if len(w) > 2 and w not in ("get", "the", "set")):
            continue
        if talk[-1][1] == corpus.FALLBACK and any(w in text for w in ("time", "day", "weather", "search", "translate", "search", "meaning", "temperature")) and groups & {0, 2}:
            continue
        return talk
    return [("user", "Hello"), ("assistant", facts.TOPICS[0][1])]


def parts(name):
    out, word = [], ""
    for c in name:
        if c == "_" or c.isupper():
            out.append(word.lower())
            word = "" if c == "_" else c
        else:
            word += c
    return [w for w in [*out, word.lower()] if w]


def tool_conversation(sampler):
    """A conversation with tools, its system message first."""
    rng = sampler.rng
    system = rng.choice(corpus.SYSTEM_PROMPTS) if rng.random() < 0.25 else ""
    r = rng.random()
    if r < 0.30:
        tools = with_others(None, rng)
        return [("system", listing(tools, system)), *needs_none(sampler, tools)]
    if r < 0.37:  # weather is asked for, but no tool knows it
        t = task(rng)
        others = [o for o in with_others(t.tool, rng) if o is not t.tool]
        fallback = corpus.FALLBACK
        if any(c.isdigit() for c in t.question) or not others or t.tool.name in ("set_timer", "set_alarm"):
            tools = with_others(None, rng)
            return [("system", listing(tools, system)), *needs_none(sampler, tools)]
        return [("system", listing(others, system)), ("user", t.question), ("assistant", fallback)]
    t = task(rng)
    tools = with_others(t.tool, rng)
    if r > 0.97:  # a choice of the client's: the name is forced
        named = rng.choice(tools)
        if named is not t.tool and len(named.params) == len(t.tool.params) and named.params:
            arguments = dict(zip(named.params, t.arguments.values()))
            head, tail = call_text(named.name, arguments).split('"arguments": ')
            return [("system", listing(tools, system)), ("user", t.question), ("assistant", [(head + '"arguments": ', False), (tail, True)])]
    question = corpus.vary(t.question, rng) if t.question.endswith("?") and rng.random() < 0.4 and not any(str(v) != str(v).lower() for v in t.arguments.values()) else t.question
    if rng.random() < 0.2 and t.question.endswith("?"):
        question = question.rstrip("?")
    talk = [("system", listing(tools, system))]
    if rng.random() < 0.12:
        talk += needs_none(sampler, tools)
    text = call_text(t.tool.name, t.arguments)
    forced = rng.random() < 0.08
    talk += [("user", question), ("assistant", [(CALL + '\n{"name": "', False), (text[len(CALL) + 11:], True)] if forced else text)]
    if rng.random() < 0.55:
        talk += [("tool", given) for given, _ in t.results]
        talk += [("assistant", " ".join(said for _, said in t.results))]
        if rng.random() < 0.2:
            talk += needs_none(sampler, tools)
        elif rng.random() < 0.25 and t.arguments:  # the same tool again, for something else
            n = again(t, rng)
            if n:
                talk += [("user", n.question), ("assistant", call_text(n.tool.name, n.arguments)), ("tool", n.results[0][0]), ("assistant", n.results[0][1])]
    return talk


def again(t, rng):
    """The same question about something else, of a lookup."""
    old, *rest = t.arguments.values()
    given, said = t.results[0]
    if rest or not isinstance(old, str) or old not in said or old in given:
        return None
    new = rng.choice(CITIES if old in CITIES else ITEMS)
    text = value(rng, parts(t.tool.name)[-1])
    sentence = said[: said.index(old)] + new + f" is {text}."
    return Task(t.tool, t.question.replace(old, new), dict.fromkeys(t.arguments, new), [(text, sentence)])
