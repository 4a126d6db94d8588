"""Tools and typed answers with the official Python client.

A call that the request asks for follows the grammar of its tool, so that the cases hold for any model."""

import json
import re
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
QUERY = {"type": "custom", "custom": {"name": "query", "description": "Runs a query", "format": {"type": "grammar", "grammar": {
    "syntax": "lark", "definition": 'start: "SELECT " NAME (", " NAME)~0..2 " FROM \\"" NAME "\\"\\n"\nNAME: /[a-z]{1,6}/'}}}}
A_QUERY = r'SELECT [a-z]{1,6}(, [a-z]{1,6}){0,2} FROM "[a-z]{1,6}"\n'
DATE = {"type": "custom", "custom": {"name": "date", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": r"\d{4}-[01]\d"}}}}


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


def custom_call(call, name="query", form=A_QUERY):
    expect(f"an id and a custom call of {name}, not {call!r}", call.id and call.type == "custom" and call.custom.name == name)
    expect(f"a text of the grammar, not {call.custom.input!r}", re.fullmatch(form, call.custom.input))
    return call.custom.input


def custom():
    r = ask(tools=[QUERY, TOOL], tool_choice={"type": "custom", "custom": {"name": "query"}})
    expect("one call", len(r.choices[0].message.tool_calls) == 1)
    return custom_call(r.choices[0].message.tool_calls[0])


def custom_allowed():
    allowed = {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "date"}}]}
    r = ask(tools=[QUERY, DATE, TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    expect(f"the end is tool_calls, not {r.choices[0].finish_reason}", r.choices[0].finish_reason == "tool_calls")
    return custom_call(r.choices[0].message.tool_calls[0], "date", r"\d{4}-[01]\d")


def custom_stream():
    """Every string joined, as the client's own helper for functions does."""
    parameters = {"tools": [DATE, QUERY], "tool_choice": {"type": "custom", "custom": {"name": "query"}}}
    call, pieces, finish = {}, 0, None
    for chunk in ask(stream=True, **parameters):
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or []:
                part = part.model_dump(exclude_none=True)
                pieces += 1
                expect("one call", part.pop("index") == 0)
                for name, text in [*part.pop("custom", {}).items(), *part.items()]:
                    call[name] = call.get(name, "") + text
    whole = ask(**parameters).choices[0]
    expect("pieces", pieces > 2)
    expect(f"the same call, not {call}", (call["type"], call["name"], call["input"]) == ("custom", "query", custom_call(whole.message.tool_calls[0])))
    expect("the same end", finish == whole.finish_reason)
    return call["input"], pieces


def custom_history():
    message = ask(tools=[QUERY, TOOL], tool_choice={"type": "custom", "custom": {"name": "query"}}).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "3 rows"}
    r = ask(tools=[QUERY, TOOL], messages=[*QUESTION, message.model_dump(exclude_none=True), result], tool_choice="none", max_tokens=16)
    expect("no call", not r.choices[0].message.tool_calls)
    return r.choices[0].message.content


def wrong_grammar():
    wrong = {"type": "custom", "custom": {"name": "query", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: nothing"}}}}
    try:
        ask(tools=[wrong], tool_choice="required")
    except openai.BadRequestError as e:
        expect(f"the field is named, not {e.param}", e.param == "tools[0].custom.format.grammar.definition" and e.code == "invalid_grammar")
        return e.message
    raise AssertionError("a wrong grammar was accepted")


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
    "custom tool": custom, "custom tool, allowed": custom_allowed, "custom tool, stream": custom_stream, "custom tool, history": custom_history,
    "custom tool, wrong grammar": wrong_grammar,
})
