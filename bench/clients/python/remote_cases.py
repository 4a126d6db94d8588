"""The official Python client against weir route before another engine: what passes through must be that engine's, whole and counted.

The model is the first of the list. Cases of what an engine may not have (embeddings, tools) say so and pass where it refuses."""

import asyncio
import json
import time

import openai

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
TALK = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "Name three rivers."}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": {
    "type": "object", "properties": {"river": {"enum": ["Nile", "Rhine"]}, "length": {"enum": [1, 2]}},
    "required": ["river", "length"], "additionalProperties": False}}}


def ask(**parameters):
    return client.chat.completions.create(model=MODEL, **{"messages": TALK, "temperature": 0, "max_tokens": 24, "seed": 1, **parameters})


def chat():
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=TALK, temperature=0, max_tokens=24)
    r = raw.parse()
    expect("the replica is named", raw.headers["x-weir-replica"] and raw.headers["x-weir-route-reason"])
    expect("usage adds up", r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens and r.usage.completion_tokens > 0)
    return r.choices[0].message.content


def stream():
    whole, text, usage, finish, pieces = ask(), "", None, None, 0
    for chunk in ask(stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            pieces += bool(choice.delta.content)
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    expect(f"{text!r} equals {whole.choices[0].message.content!r}", text == whole.choices[0].message.content)
    expect("piece by piece", pieces > 3)
    expect("the same usage and end", usage.completion_tokens == whole.usage.completion_tokens and finish == whole.choices[0].finish_reason)
    return text


def completion():
    r = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=6, temperature=0)
    text = "".join(c.choices[0].text for c in client.completions.create(
        model=MODEL, prompt="The capital of France is", max_tokens=6, temperature=0, stream=True) if c.choices)
    expect(f"streamed {text!r} equals {r.choices[0].text!r}", text == r.choices[0].text)
    return text


def together():
    async def all_of():
        async with openai.AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0) as c:
            return await asyncio.gather(*[c.chat.completions.create(model=MODEL, messages=TALK, max_tokens=8) for _ in range(12)])
    answers = asyncio.run(all_of())
    expect("an answer each", len({r.id for r in answers}) == 12)
    return "12 at once"


def refusal_or(make, check):
    """What an engine does not have, it refuses by itself."""
    try:
        answer = make()
    except openai.APIStatusError as e:
        expect(f"a refusal with its reason, not {e.status_code} {e.message!r}", e.status_code in (400, 422, 501) and e.message)
        return f"refused: {e.status_code} {e.message}"
    return check(answer)


def tools():
    def check(r):
        call = r.choices[0].message.tool_calls[0]
        expect("the call", call.function.name == "get_weather" and json.loads(call.function.arguments)["city"] in ("Paris", "Rome"))
        again = TALK + [r.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        expect("an answer to the tool's result", ask(messages=again, tools=[TOOL], tool_choice="none").choices[0].message.role == "assistant")
        return call.function.arguments
    return refusal_or(lambda: ask(tools=[TOOL], tool_choice="required", max_tokens=100), check)


def streamed_tools():
    def check(events):
        name, arguments, finish = "", "", None
        for chunk in events:
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or []:
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
                finish = choice.finish_reason or finish
        expect(f"one call, not {name!r} {arguments!r}", name == "get_weather" and json.loads(arguments)["city"] in ("Paris", "Rome"))
        expect(f"the end is tool_calls, not {finish}", finish == "tool_calls")
        return arguments
    return refusal_or(lambda: ask(tools=[TOOL], tool_choice="required", max_tokens=100, stream=True), check)


def schema():
    def check(r):
        said = json.loads(r.choices[0].message.content)
        expect("by the schema", said["river"] in ("Nile", "Rhine") and said["length"] in (1, 2))
        return said
    return refusal_or(lambda: ask(response_format=SCHEMA, max_tokens=60), check)


def logprobs():
    def check(r):
        expect("two alternatives", len(r.choices[0].logprobs.content[0].top_logprobs) == 2)
        return r.choices[0].logprobs.content[0].token
    return refusal_or(lambda: ask(logprobs=True, top_logprobs=2, max_tokens=2), check)


def embeddings():
    def check(r):
        expect("two vectors of numbers", len(r.data) == 2 and len(r.data[0].embedding) == len(r.data[1].embedding) > 8)
        return len(r.data[0].embedding)
    return refusal_or(lambda: client.embeddings.create(model=MODEL, input=["a river", "a city"]), check)


def wrong_value():
    try:
        ask(extra_body={"max_tokens": "many"})
    except openai.APIStatusError as e:
        expect(f"a client's error, not {e.status_code}", e.status_code in (400, 422, 500) and e.message)
        return f"{e.status_code} {e.message}"
    raise AssertionError("max_tokens of many was accepted")


def leave():
    """A stream that its client leaves frees its place: sixteen of them, and an answer comes at once."""
    for _ in range(16):
        events = ask(stream=True, max_tokens=2000, messages=[{"role": "user", "content": "Tell a very long story."}])
        next(iter(events))
        events.close()
    began = time.monotonic()
    ask(max_tokens=1)
    took = time.monotonic() - began
    expect(f"an answer at once, not after {took:.1f} s", took < 20)
    return f"16 left, the next answer after {took:.1f} s"


run("openai", {
    "chat": chat, "stream": stream, "completion": completion, "together": together, "tools": tools, "streamed tools": streamed_tools,
    "schema": schema, "logprobs": logprobs, "embeddings": embeddings, "wrong value": wrong_value, "leaving streams": leave,
})
