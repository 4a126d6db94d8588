"""Tools and JSON that the embedded model answers by itself, with the official Python client: nothing forces the calls."""

import json

import openai
from pydantic import BaseModel

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
ADD = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}}
PARIS = [{"role": "user", "content": "What is the weather in Paris?"}]


class Person(BaseModel):
    name: str
    age: int


def ask(messages=PARIS, **parameters):
    return client.chat.completions.create(model=MODEL, messages=messages, **{"tools": [WEATHER, ADD], "temperature": 0, **parameters}).choices[0]


def check(calls, name="get_weather", arguments={"city": "Paris"}):
    got = [(c.function.name, json.loads(c.function.arguments)) for c in calls or []]
    expect(f"{name} {arguments}, not {got}", got == [(name, arguments)])
    return got


def call():
    choice = ask()
    expect(f"the end is tool_calls, not {choice.finish_reason}", choice.finish_reason == "tool_calls")
    return check(choice.message.tool_calls)


def stream():
    with client.chat.completions.stream(model=MODEL, messages=PARIS, tools=[WEATHER, ADD], temperature=0) as events:
        done = [e for e in events if e.type == "tool_calls.function.arguments.done"]
        final = events.get_final_completion().choices[0]
    expect("one event", len(done) == 1)
    return check(final.message.tool_calls)


def numbers():
    return check(ask([{"role": "user", "content": "What is 123 + 456?"}]).message.tool_calls, "add", {"a": 123, "b": 456})


def conversation():
    first = ask().message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "sunny, 21 degrees"}
    choice = ask([*PARIS, first.model_dump(exclude_none=True), result])
    expect(f"the result is told: {choice.message.content}", choice.message.content == "The weather in Paris is sunny, 21 degrees.")
    return choice.message.content


def no_call():
    choice = ask([{"role": "user", "content": "What is TTFT?"}])
    expect("the usual answer", not choice.message.tool_calls and choice.message.content.startswith("TTFT is the time to first token"))
    return choice.message.content


def response():
    tool = {"type": "function", **WEATHER["function"], "strict": False}
    r = client.responses.create(model=MODEL, input="What is the weather in Paris?", tools=[tool], temperature=0)
    calls = [i for i in r.output if i.type == "function_call"]
    expect("one call of Paris", [(c.name, json.loads(c.arguments)) for c in calls] == [("get_weather", {"city": "Paris"})])
    return calls[0].arguments


def json_object():
    r = ask([{"role": "user", "content": "What is 2 plus 3? Answer as JSON."}], tools=openai.NOT_GIVEN, response_format={"type": "json_object"})
    expect(f"the sum, not {r.message.content}", json.loads(r.message.content) == {"sum": 5})
    return r.message.content


def typed():
    r = client.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": "Ann is 31 years old."}], response_format=Person, temperature=0)
    expect("Ann is 31", r.choices[0].message.parsed == Person(name="Ann", age=31))
    return r.choices[0].message.parsed


run("openai", {"call": call, "stream": stream, "numbers": numbers, "conversation": conversation, "no call": no_call, "response": response,
               "json object": json_object, "typed": typed})
