"""A model's own calls, nothing forces them: a loop over openai's chats and responses, whole and as a stream, until the model says what the tools told it."""

import json

import openai

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
DEGREES = {"Paris": "21", "Rome": "27", "Oslo": "9", "Cairo": "34"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "The weather of a city.", "parameters": SCHEMA}


def weather(arguments):
    city = json.loads(arguments)["city"]
    return city, f"sunny, {DEGREES.get(city.split(',')[0], '5')} degrees"


def chat(messages, stream):
    """One turn: the message as a dict. Small models would call again what they have been told, so there are no tools then."""
    tools = {} if messages[-1]["role"] == "tool" else {"tools": [{"type": "function", "function": TOOL}]}
    ask = {"model": MODEL, "messages": messages, **tools, "temperature": 0, "max_tokens": 200}
    if stream:
        with client.chat.completions.stream(**ask) as s:
            m = s.get_final_completion().choices[0].message
    else:
        m = client.chat.completions.create(**ask).choices[0].message
    return {"role": "assistant", "content": m.content, **({"tool_calls": [c.model_dump(include={"id", "type", "function"}) for c in m.tool_calls]} if m.tool_calls else {})}


def chats(city, stream):
    messages, asked = [{"role": "user", "content": f"What is the weather in {city}?"}], []
    for _ in range(4):
        messages.append(chat(messages, stream))
        for call in messages[-1].get("tool_calls", []):
            name, said = weather(call["function"]["arguments"])
            asked.append(name)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
        if messages[-1]["role"] == "assistant":
            break
    return told(city, asked, messages[-1]["content"])


def responses(city, stream):
    items, asked = [{"role": "user", "content": f"What is the weather in {city}?"}], []
    for _ in range(4):
        tools = {} if asked else {"tools": [{"type": "function", **TOOL, "strict": False}]}
        ask = {"model": MODEL, "input": items, **tools, "temperature": 0, "max_output_tokens": 200, "store": False}
        if stream:
            with client.responses.stream(**ask) as s:
                r = s.get_final_response()
        else:
            r = client.responses.create(**ask)
        calls = [i for i in r.output if i.type == "function_call"]
        items += [i.model_dump(include={"type", "call_id", "name", "arguments"}) for i in calls]
        for call in calls:
            name, said = weather(call.arguments)
            asked.append(name)
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": said})
        if not calls:
            break
    return told(city, asked, r.output_text)


def told(city, asked, text):
    expect(f"a call of {city}, not {asked}; the answer is {text!r}", asked and city in asked[0])
    expect(f"{DEGREES[city]} in {text!r}", DEGREES[city] in text)
    return text


run("openai", {
    f"{loop.__name__}, {city}, {'stream' if stream else 'whole'}": lambda loop=loop, city=city, stream=stream: loop(city, stream)
    for loop in (chats, responses) for city in DEGREES for stream in (False, True)})
