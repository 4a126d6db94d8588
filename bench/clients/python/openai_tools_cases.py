"""Tools and typed answers with the official Python client.

A call that the request asks for follows the grammar of its tool, so that the cases hold for any model."""

import json
from typing import Literal

import openai
from pydantic import BaseModel

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


TOOL = openai.pydantic_function_tool(Weather, name="get_weather")
NOW = {"type": "function", "function": {"name": "get_time", "parameters": {
    "type": "object", "properties": {}, "additionalProperties": False}}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def ask(**parameters):
    return client.chat.completions.create(
        model=MODEL, **{"messages": QUESTION, "tools": [TOOL], "temperature": 0, "max_tokens": 200, "parallel_tool_calls": False, **parameters})


def check(call):
    expect(f"an id and the name, not {call.id!r}, {call.function.name!r}", call.id and call.function.name == "get_weather")
    return Weather.model_validate_json(call.function.arguments)


def required():
    r = ask(tool_choice="required")
    expect(f"the end is tool_calls, not {r.choices[0].finish_reason}", r.choices[0].finish_reason == "tool_calls")
    return [check(c) for c in r.choices[0].message.tool_calls]


def named():
    r = ask(tools=[NOW, TOOL], tool_choice=NAMED)
    expect("one call", len(r.choices[0].message.tool_calls) == 1)
    return check(r.choices[0].message.tool_calls[0])


def stream():
    return streamed()


def stream_of_several():
    return streamed(parallel_tool_calls=True)  # small models go on until the length ends them


def streamed(**parameters):
    calls, finish = {}, None
    for chunk in ask(tool_choice="required", stream=True, **parameters):
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or []:
                if part.id:
                    expect("a call begins once", part.index == len(calls))
                    calls[part.index] = [part.function.name, ""]
                calls[part.index][1] += part.function.arguments or ""
    whole = ask(tool_choice="required", **parameters)
    expect("the calls of the whole answer",
           [tuple(c) for c in calls.values()] == [(c.function.name, c.function.arguments) for c in whole.choices[0].message.tool_calls])
    expect("the same end", finish == whole.choices[0].finish_reason)
    expect("a clean end of one call", parameters or finish == "tool_calls")
    return list(calls.values())


def stream_helper():
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, tools=[TOOL], tool_choice="required",
                                        parallel_tool_calls=False, temperature=0, max_tokens=200) as events:
        done = [e for e in events if e.type == "tool_calls.function.arguments.done"]
        final = events.get_final_completion()
    calls = final.choices[0].message.tool_calls
    expect("an event for each call", len(done) == len(calls) > 0)
    expect("parsed arguments", all(isinstance(c.function.parsed_arguments, Weather) for c in calls))
    return [c.function.parsed_arguments for c in calls]


def parse_tools():
    r = client.chat.completions.parse(model=MODEL, messages=QUESTION, tools=[TOOL], tool_choice="required", parallel_tool_calls=False,
                                       temperature=0, max_tokens=200)
    return [c.function.parsed_arguments for c in r.choices[0].message.tool_calls]


def parse_answer():
    r = client.chat.completions.parse(model=MODEL, messages=QUESTION, response_format=Weather, temperature=0, max_tokens=200)
    expect("no call", not r.choices[0].message.tool_calls)
    return r.choices[0].message.parsed.city


def history():
    r = ask(tool_choice="required")
    message = r.choices[0].message
    results = [{"role": "tool", "tool_call_id": c.id, "content": json.dumps({"sun": True})} for c in message.tool_calls]
    r = ask(messages=[*QUESTION, message.model_dump(exclude_none=True), *results], tool_choice="none", max_tokens=16)
    expect("no call", not r.choices[0].message.tool_calls)
    return r.choices[0].message.content


def unknown_result():
    try:
        ask(messages=[*QUESTION, {"role": "tool", "tool_call_id": "call_x", "content": "sun"}])
    except openai.BadRequestError as e:
        expect("the parameter is named", e.param == "messages[1].tool_call_id")
        return e.message
    raise AssertionError("a result without a call was accepted")


run("openai", {
    "required": required, "named": named, "stream": stream, "stream of several calls": stream_of_several, "stream helper": stream_helper,
    "parse": parse_tools, "parse an answer": parse_answer, "history": history, "unknown result": unknown_result,
})
