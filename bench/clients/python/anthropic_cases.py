"""POST /v1/messages by Anthropic's Python client."""

import json

import anthropic

from case import ASK, BASE, KEY, LONG, MODEL, expect, run

client = anthropic.Anthropic(base_url=BASE.removesuffix("/v1"), api_key=KEY, max_retries=0)
GREEDY = {"temperature": 0}


def ask(**parameters):
    return client.messages.create(model=MODEL, **{"messages": ASK, "max_tokens": 24, "extra_body": GREEDY, **parameters})


def whole():
    r = ask()
    expect(f"a stop reason {r.stop_reason}", r.stop_reason in ("end_turn", "max_tokens"))
    expect("text", r.content[0].type == "text")
    return r.content[0].text


def stream_helper():
    with client.messages.stream(model=MODEL, messages=ASK, max_tokens=24, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    same = ask()
    expect("the same text", text == final.content[0].text == same.content[0].text)
    expect("the same usage", final.usage.output_tokens == same.usage.output_tokens)
    expect("the same end", final.stop_reason == same.stop_reason)
    return text


def events():
    seen = [e.type for e in ask(stream=True)]
    expect(f"the order {seen}", seen[0] == "message_start" and seen[1] == "content_block_start" and seen[-2:] == ["message_delta", "message_stop"])
    return seen


def count_tokens():
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    n = client.messages.count_tokens(model=MODEL, messages=ASK, system=system).input_tokens
    u = ask(system=system).usage
    expect(f"{n} tokens are {u.input_tokens} and {u.cache_read_input_tokens}", n == u.input_tokens + u.cache_read_input_tokens)
    again = ask(system=system).usage
    expect("the same sum", n == again.input_tokens + again.cache_read_input_tokens)
    return n


def stop_sequence():
    word = ask().content[0].text.split()[1]
    r = ask(stop_sequences=[word])
    expect(f"{r.stop_reason} {r.stop_sequence}", r.stop_reason == "stop_sequence" and r.stop_sequence == word)
    return word


def beta():
    r = client.beta.messages.create(model=MODEL, messages=ASK, max_tokens=4, betas=["unknown-2030-01-01"])
    return r.stop_reason


def refusals():
    image = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/x.png"}}]}]
    for parameters, kind in (({"messages": image}, anthropic.BadRequestError), ({"model": "other"}, anthropic.NotFoundError),
                             ({"messages": LONG}, anthropic.BadRequestError)):
        try:
            client.messages.create(**{"model": MODEL, "max_tokens": 5, "messages": ASK, **parameters})
        except kind as e:
            expect(f"an error object {e.body}", e.body["type"] == "error" and e.body["error"]["type"])
        else:
            expect(f"{parameters} is refused", False)
    return "as Anthropic's errors"


PARIS = [{"role": "user", "content": "What is the weather in Paris?"}]


def weather(**city):
    return [{"name": "get_weather", "description": "The weather of a city.", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string", **city}}, "required": ["city"], "additionalProperties": False}}]


DEMAND = {"messages": PARIS, "max_tokens": 200, "tools": weather(enum=["Paris", "Rome"]), "tool_choice": {"type": "tool", "name": "get_weather"}}


def tool():
    """A call that is demanded follows its schema, whatever the model."""
    r = ask(**DEMAND)
    expect(f"a call, not {r.content}", r.stop_reason == "tool_use" and r.content[-1].name == "get_weather" and r.content[-1].input["city"] in ("Paris", "Rome"))
    return r.content[-1].input


def tool_as_a_stream():
    with client.messages.stream(model=MODEL, extra_body=GREEDY, **DEMAND) as stream:
        parts = [e.partial_json for e in stream if e.type == "input_json"]
        final = stream.get_final_message()
    expect("parts of the arguments", json.loads("".join(parts)) == final.content[-1].input)
    expect("the same call", final.content[-1].input == ask(**DEMAND).content[-1].input and final.stop_reason == "tool_use")
    return len(parts)


def tool_result():
    first = ask(**DEMAND)
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "sunny, 21 degrees"}
    r = ask(messages=[*PARIS, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}],
            tools=DEMAND["tools"], tool_choice={"type": "none"}, max_tokens=60)
    expect("no call", all(b.type != "tool_use" for b in r.content))
    return "".join(b.text for b in r.content)


def own_call():
    """The embedded model calls the tool by itself and tells its result."""
    r = ask(messages=PARIS, tools=weather(), max_tokens=200)
    expect(f"a call of Paris, not {r.content}", r.stop_reason == "tool_use" and [(b.name, b.input) for b in r.content] == [("get_weather", {"city": "Paris"})])
    said = tool_result()
    expect(f"the tool's result, not {said!r}", said == "The weather in Paris is sunny, 21 degrees.")
    return said


cases = [whole, stream_helper, events, count_tokens, stop_sequence, beta, refusals, tool, tool_as_a_stream, tool_result]
if MODEL == "weir-default":
    cases.append(own_call)
run("anthropic", {f.__name__: f for f in cases})
