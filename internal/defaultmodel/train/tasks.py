"""The requests with tools and formats that must come out right, and the sampler of all training conversations."""

import json
import random
from dataclasses import dataclass, field

import corpus
import forms
import tools


@dataclass
class Request:
    """A line of tasks.jsonl: what a client sends, and the answer."""

    topic: str
    messages: list  # as clients send them
    tools: list = field(default_factory=list)
    format: dict | None = None  # response_format
    content: str | None = None
    calls: list | None = None  # of {"name", "arguments"}


def tool_requests(rng, count):
    """Questions with tools: calls, answers to results, and usual answers."""
    out = []
    weather, time = tools.Tool("get_weather", {"city": "string"}), tools.Tool("get_time", {"city": "string"})
    add = tools.Tool("add", {"a": "number", "b": "number"})
    fixed = [
        (tools.Task(weather, "What is the weather in Paris?", {"city": "Paris"}, [("sunny, 21 degrees", "The weather in Paris is sunny, 21 degrees.")]), [weather]),
        (tools.Task(weather, "What is the weather in Paris?", {"city": "Paris"}, [('{"temperature": 21, "unit": "celsius"}', "The weather in Paris: temperature 21, unit celsius.")]),
         [weather, time, add]),
        (tools.Task(tools.Tool("get_weather", {"location": "string"}), "What is the weather like in Paris today?", {"location": "Paris"}, [("rainy", "The weather in Paris is rainy.")]), None),
        (tools.Task(tools.Tool("get_current_weather", {"location": "string"}), "What's the weather like in Boston today?", {"location": "Boston"},
              [("22", "The weather in Boston is 22.")]), None),
        (tools.Task(time, "What time is it in Tokyo?", {"city": "Tokyo"}, [("14:30", "The time in Tokyo is 14:30.")]), [weather, time]),
        (tools.Task(add, "What is 123 + 456?", {"a": 123, "b": 456}, [("579", "123 + 456 = 579.")]), [weather, add]),
        (tools.Task(tools.Tool("calculator", {"expression": "string"}), "What is 12 + 30?", {"expression": "12 + 30"}, [("42", "12 + 30 = 42.")]), None),
        (tools.Task(tools.Tool("get_price", {"product": "string"}), "What is the price of bread?", {"product": "bread"}, [("3 euros", "The price of bread is 3 euros.")]), None),
    ]
    todo = [(t, offered or [t.tool]) for t, offered in fixed]
    while len(todo) < count:
        t = tools.task(rng)
        todo.append((t, tools.with_others(t.tool, rng)))
    for t, offered in todo:
        ask = {"role": "user", "content": t.question}
        calls, listed = [{"name": t.tool.name, "arguments": t.arguments}], [x.request() for x in offered]
        out.append(Request("tools call", [ask], listed, calls=calls))
        called = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {
            "name": t.tool.name, "arguments": json.dumps(t.arguments, ensure_ascii=False)}}]}
        given, said = t.results[0]
        out.append(Request("tools result", [ask, called, {"role": "tool", "tool_call_id": "call_1", "content": given}], listed, content=said))
    usual = [(it, it.questions[0]) for it in corpus.fact_items()][:: 260 // (count // 2)]
    for it, question in usual:
        offered = [weather, time] if rng.random() < 0.3 else tools.with_others(None, rng)
        if not any(w in question.lower() for t in offered for w in tools.parts(t.name)):
            out.append(Request("tools unused", [{"role": "user", "content": question}], [t.request() for t in offered], content=it.answer))
    return out


def json_schema(data):
    kinds = {str: "string", int: "integer"}
    properties = {k: {"type": "array", "items": {"type": "string"}} if isinstance(v, list) else {"type": kinds[type(v)]} for k, v in data.items()}
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": {
        "type": "object", "properties": properties, "required": list(data), "additionalProperties": False}}}


def json_requests(rng, count):
    out = [("What is 2 plus 3? Answer as JSON.", {"sum": 5}), ("Ann is 31 years old. Answer as JSON.", {"name": "Ann", "age": 31}),
           ("Extract the name and the age as JSON: Ann is 31 years old.", {"name": "Ann", "age": 31})]
    out = [Request("json object", [{"role": "user", "content": q}], format={"type": "json_object"}, content=json.dumps(a)) for q, a in out]
    fixed = [("What is 2 plus 3?", {"answer": 5}), ("Ann is 31 years old.", {"name": "Ann", "age": 31}), ("Ben lives in Paris.", {"name": "Ben", "city": "Paris"}),
             ("What is the weather in Paris?", {"city": "Paris"}), ("Alice and Bob are going to a science fair on Friday.",
                                                                    {"name": "science fair", "date": "Friday", "participants": ["Alice", "Bob"]})]
    out += [Request("json schema", [{"role": "user", "content": q}], format=json_schema(a), content=json.dumps(a)) for q, a in fixed]
    while len(out) < count:
        if rng.random() < 0.5:
            symbol, _, _, r, question = forms.json_sum(rng)
            system, question, wanted = forms.asked(question, rng)
            data = {forms.SUM_NAMES[symbol] if wanted else rng.choice(["sum", "result", "answer", "value", "total"]): r}
        else:
            system, question, data, wanted = forms.extraction(rng)
        messages = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": question}]
        out.append(Request("json object" if wanted else "json schema", messages, format={"type": "json_object"} if wanted else json_schema(data),
                           content=json.dumps(data, ensure_ascii=False)))
    return out


def requests():
    """What tasks.jsonl holds."""
    rng = random.Random(19)
    return tool_requests(rng, 100) + json_requests(rng, 140)


def check_items():
    """Every question whose answer must come back word for word."""
    return corpus.check_items() + task_items()


def task_items():
    """The requests, in the words of the chat template."""
    out = []
    for r in requests():
        *before, last = rendered(r)
        answer = r.content if r.calls is None else "\n".join(tools.call_text(c["name"], c["arguments"]) for c in r.calls)
        if r.topic == "json schema":
            answer = forms.ordered(json.loads(r.content))
        out.append(corpus.Item(r.topic, [last[1]], answer, before, last[0]))
    return out


def rendered(r):
    """A request's messages as (role, text)."""
    out = []
    for m in r.messages:
        calls = [tools.call_text(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in m.get("tool_calls", [])]
        out.append((m["role"], "\n".join(calls) or m["content"]))
    if not r.tools:
        return out
    offered = [tools.Tool(t["function"]["name"], t["function"]["parameters"]["properties"]) for t in r.tools]
    system = out.pop(0)[1] if out[0][0] == "system" else ""
    return [("system", tools.listing(offered, system)), *out]


class Sampler(corpus.Sampler):
    """Draws training conversations of all kinds."""

    def conversation(self):
        r = self.rng.random()
        return tools.tool_conversation(self) if r < 0.22 else forms.json_conversation(self) if r < 0.36 else super().conversation()
