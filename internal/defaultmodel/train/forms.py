"""Answers in JSON: the generator of training text.

Field names are the model's own where the question asks for JSON, and somebody's
where only a schema does; those do not count (see tools.py).
"""

import json
from dataclasses import dataclass

import corpus
import tools

AS_JSON = [" Answer as JSON."] * 5 + [" Answer in JSON.", " Reply as JSON.", " Reply with JSON.", " Respond in JSON.", " Respond with JSON.", " Give the answer as JSON.",
                                      " Return JSON.", " as JSON", " in JSON", " (JSON)"]
JSON_SYSTEMS = ["Answer as JSON.", "Answer in JSON.", "You answer in JSON.", "Respond with JSON only.", "You are a helpful assistant designed to output JSON.",
                "Reply with a JSON object.", "Output JSON.", "You are a helpful assistant. Answer as JSON."]
JOBS = "teacher doctor baker farmer pilot lawyer painter student driver cook nurse writer".split()
EVENTS = ["science fair", "concert", "party", "wedding", "meeting", "picnic"]
SUM_NAMES = {"+": "sum", "-": "difference", "x": "product", "/": "quotient"}
SYNONYMS = {
    "name": ["name", "person", "first_name"], "age": ["age", "years"], "city": ["city", "town", "location"], "job": ["job", "profession"],
    "product": ["product", "item"], "price": ["price", "cost"], "event": ["event", "name", "title"], "date": ["date", "day"],
    "participants": ["participants", "people"],
}


@dataclass
class Record:
    """A sentence and what it says."""

    text: str
    data: dict


def record(rng):
    def name():
        return rng.choice(corpus.NAMES + ["Ann"] * 6)

    n, age, city, job = name(), rng.randint(1, 99), rng.choice(tools.CITIES), rng.choice(JOBS)
    item, price = rng.choice(tools.ITEMS), rng.randint(1, 20)
    r = rng.random()
    if r < 0.45:
        return Record(rng.choice([f"{n} is {age} years old."] * 4 + [f"{n} is {age}.", f"My name is {n} and I am {age} years old."]), {"name": n, "age": age})
    if r < 0.65:
        return Record(rng.choice([f"{n} lives in {city}.", f"{n} is from {city}."]), {"name": n, "city": city})
    if r < 0.80:
        return Record(f"{n} is {age} years old and lives in {city}.", {"name": n, "age": age, "city": city})
    if r < 0.86:
        return Record(f"{n} is a {job}.", {"name": n, "job": job})
    if r < 0.95:
        return Record(f"The {item} costs {price} euros.", {"product": item, "price": price})
    event, day, other = rng.choice(EVENTS), rng.choice(tools.DAYS[:7]), name()
    return Record(rng.choice([f"{n} and {other} are going to a {event} on {day}.", f"{n} and {other} go to a {event} on {day}."]),
                  {"event": event, "date": day, "participants": [n, other]})


def fields(data, forced, rng):
    """JSON text of data as answer content. Forced: names are somebody's, the opening is not the model's choice, and some fields
    may be left out or stand in another order."""
    if not forced:
        return json.dumps(data, ensure_ascii=False)
    items = list(data.items())
    if rng.random() < 0.4:
        items = rng.sample(items, rng.randint(1, len(items)))
    out, first = [], "{"
    for key, v in items:
        names = SYNONYMS.get(key, [key])
        out.append((first + json.dumps(rng.choice(names) if rng.random() < 0.7 else key) + ":", False))
        text = json.dumps(v, ensure_ascii=False)
        if isinstance(v, int) and rng.random() < 0.15:
            out += [(' "', False), (f'{v}"', True)]  # a schema that wants a string
        elif isinstance(v, list):
            out += [(' ["', False), (text[2:], True)]
        elif isinstance(v, str):
            out += [(' "', False), (text[1:], True)]
        else:
            out.append((" " + text, True))
        first = ", "
    return [*out, ("}", True)]


def asked(text, rng):
    """(system prompt, question) that ask for JSON; the flag says whether they do."""
    r = rng.random()
    if r < 0.62:
        return "", text + rng.choice(AS_JSON) if text[-1:] in "?.!" else text + ". Answer as JSON.", True
    if r < 0.78:
        return rng.choice(JSON_SYSTEMS), text, True
    return rng.choice(["", "", rng.choice(corpus.SYSTEM_PROMPTS)]), text, False


EXTRACT = ["Extract the data as JSON: {}", "Extract the fields as JSON: {}", "As JSON: {}", "Extract as JSON: {}", "Convert to JSON: {}", "{} Extract JSON.", "Turn this into JSON: {}"]
EXTRACT_SYSTEMS = ["Extract the data as JSON.", "Extract the event information.", "Extract the information.", "Extract the person's data as JSON.", "Extract the fields."]


def extraction(rng):
    rec = record(rng)
    r = rng.random()
    system, question, wanted = "", rec.text, True
    if r < 0.35:
        question = rec.text + rng.choice(AS_JSON[:12])
    elif r < 0.55:
        question = rng.choice(EXTRACT).format(rec.text)
    elif r < 0.70:
        names = list(rec.data)
        listed = names[0] if len(names) == 1 else ", ".join("the " + x for x in names[:-1]) + " and the " + names[-1]
        question = f"Extract {listed} as JSON: {rec.text}"
    elif r < 0.82:
        system = rng.choice(JSON_SYSTEMS + EXTRACT_SYSTEMS[:1] * 2)
    else:  # only the grammar asks for JSON
        system, wanted = rng.choice(["", "", "You are a helpful assistant.", rng.choice(EXTRACT_SYSTEMS)]), False
        if rng.random() < 0.3:
            question = "Extract the data: " + question
    return system, question, rec.data, wanted


DEMANDED = ["Person", "User", "UserInfo", "final_result", "answer", "extract", "record", "save", "Event", "Product", "Data"]


def demanded(rng):
    """A record that a demanded tool wants as its arguments: the sentence, the tool, its arguments."""
    rec = record(rng)
    question = "Extract the data: " + rec.text if rng.random() < 0.2 else rec.text
    kinds = {str: "string", int: "integer", list: "array"}
    return question, tools.Tool(rng.choice(DEMANDED[:5] * 2 + DEMANDED), {k: kinds[type(v)] for k, v in rec.data.items()}), rec.data


def demanded_call(name, data):
    """The call as answer content: what the grammar forces, and the values."""
    return [(tools.CALL + '\n{"name": "' + name + '", "arguments": ', False), *ordered(data), ("}\n" + tools.CALL_END, True)]


def described(data):
    """A system prompt that shows the JSON Schema of data, as libraries write it; long, and to be seen past."""
    kinds = {str: "string", int: "integer", list: "array"}
    return json.dumps({"properties": {k: {"title": k.capitalize(), "type": kinds[type(v)]} for k, v in data.items()}, "required": list(data),
                       "title": "Person", "type": "object"}, indent=2)


DESCRIBED = ["Answer with JSON of this schema:\n{}", "You are a helpful assistant. Answer with one JSON object that fits this JSON schema:\n\n{}\n\nThe object, not the schema.",
             "Read the text and give its data as JSON that fits this json_schema:\n{}"]


def json_sum(rng):
    symbol = rng.choice("+++--xx/")
    phrases = tools.ARITHMETIC[symbol][1]
    if symbol in "+-":
        a, b = rng.randint(0, corpus.MAX_TERM), rng.randint(0, corpus.MAX_TERM)
    else:
        a, b = rng.randint(0, corpus.MAX_FACTOR), rng.randint(0, corpus.MAX_FACTOR)
    if symbol == "/":
        b = max(1, b)
        a = a * b
    r = {"+": a + b, "-": a - b, "x": a * b, "/": a // max(b, 1)}[symbol]
    question = rng.choice(phrases[:1] * 2 + [p for p in phrases if p.endswith(("?", "."))]).format(a=a, b=b)
    return symbol, a, b, r, question


def json_conversation(sampler):
    rng = sampler.rng
    r = rng.random()
    if r < 0.42:
        symbol, a, b, result, question = json_sum(rng)
        system, question, wanted = asked(question, rng)
        if wanted and rng.random() < 0.6:
            answer = fields({SUM_NAMES[symbol]: result}, False, rng)
        else:
            name = rng.choice(["sum", "result", "answer", "value", "total", "solution", "number", SUM_NAMES[symbol], "output"])
            data = {name: result}
            if rng.random() < 0.25:
                x, y = rng.choice([("a", "b"), ("x", "y")])
                data = {x: a, y: b} | data
            elif rng.random() < 0.1:
                data = {"expression": f"{a} {symbol} {b}"} | data
            answer = ordered(data)
    elif r < 0.80:
        system, question, data, wanted = extraction(rng)
        answer = fields(data, not wanted or rng.random() < 0.35, rng)
        if not system and rng.random() < 0.1:
            system, answer = rng.choice(DESCRIBED).format(described(data)), fields(data, False, rng)
    elif r < 0.90:  # knowledge in a field
        item, q = sampler._next("facts", sampler.facts)
        system, question, wanted = asked(q, rng)
        answer = fields({"answer": item.answer}, False, rng)
        if not wanted:
            answer = [('{"answer": "', False), (answer[len('{"answer": "'):], True)]
    else:
        system, question, answer = unknown_as_json(rng)
    return ([("system", system)] if system else []) + [("user", question), ("assistant", answer)]


def ordered(data):
    """Forced fields in the given order."""
    out, first = [], "{"
    for key, v in data.items():
        out.append((f'{first}"{key}":', False))
        text = json.dumps(v, ensure_ascii=False)
        opening = ' ["' if isinstance(v, list) else ' "' if isinstance(v, str) else ""
        out += [(opening, False), (text[len(opening) - 1 :], True)] if opening else [(" " + text, True)]
        first = ", "
    return [*out, ("}", True)]


ENTITIES = ("city", "country", "person", "thing", "animal", "year", "tongue", "activity")
ENTITY_NAMES = {"city": ["city", "place", "location"], "country": ["country", "place"], "person": ["person", "name"], "thing": ["product", "item", "food", "thing"],
                "animal": ["animal", "subject"], "year": ["year", "date"], "tongue": ["language"], "activity": ["activity", "topic"]}


def unknown_as_json(rng):
    """What is in the question can be copied; all else is unknown."""
    pattern = rng.choice([p for p in corpus.UNKNOWN if any("{" + e + "}" in p for e in ENTITIES) and p.endswith("?") and p.count("{") == 1] * 3 + corpus.UNKNOWN[:60])
    kinds = [e for e in ENTITIES if "{" + e + "}" in pattern]
    if pattern.count("{") == 1 and kinds:
        kind = kinds[0]
        what = rng.choice(corpus.FILLERS[kind])
        question = pattern.replace("{" + kind + "}", what)
        data = {rng.choice(ENTITY_NAMES[kind]): what}
        if rng.random() < 0.6:
            other = {rng.choice(["answer", "capital", "result", "text", "author", "description", "title", "summary", corpus.nonword(rng)]): "unknown"}
            data = data | other if rng.random() < 0.6 else other | data
        if rng.random() < 0.4:
            data |= {rng.choice(["count", "number", "population", "days", "temperature", "score", "amount"]): 0}
    else:
        question = corpus.fill(pattern, rng)
        data = {rng.choice(["answer", "result", "text", "summary"]): "unknown"}
    system, question, wanted = asked(question, rng)
    if wanted and rng.random() < 0.4:
        return system, question, '{"answer": "unknown"}'
    return system, question, ordered(data)
