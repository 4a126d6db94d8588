"""POST /v1/responses by the official Python client."""

import openai

from case import ASK, BASE, KEY, LONG, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)


def ask(**parameters):
    return client.responses.create(model=MODEL, **{"input": "Hello", "temperature": 0, "max_output_tokens": 24, **parameters})


def whole():
    r = ask()
    expect(f"status {r.status}", r.status in ("completed", "incomplete"))
    expect("usage adds up", r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens)
    chat = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_tokens=24)
    expect("the answer of a chat", r.output_text == chat.choices[0].message.content)
    return r.output_text


def events():
    seen, text, last = [], "", None
    for event in ask(stream=True):
        expect(f"number {event.sequence_number}", event.sequence_number == len(seen))
        seen.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        last = event
    expect(f"the order {seen}", seen[:2] == ["response.created", "response.in_progress"])
    expect(f"the end {seen[-1]}", seen[-1] in ("response.completed", "response.incomplete"))
    expect("the same text", text == last.response.output_text == ask().output_text)
    return seen


def stream_helper():
    with client.responses.stream(model=MODEL, input="Hello", temperature=0) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    expect("the same text", text == final.output_text)
    return text


def conversation():
    first = ask()
    history = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    history += [item.model_dump(exclude_none=True) for item in first.output]
    second = ask(instructions="Answer in English.", input=history + [{"role": "user", "content": "Thank you"}])
    expect("more input", second.usage.input_tokens > first.usage.input_tokens)
    return second.output_text


def incomplete():
    r = ask(max_output_tokens=1)
    expect(f"{r.status} {r.incomplete_details}", r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens")
    return r.status


def refusals():
    for parameters, field in (({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
                              ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"temperature": 9}, "temperature")):
        try:
            ask(**parameters)
        except openai.BadRequestError as e:
            expect(f"{e.param} is {field}", e.param == field)
        else:
            expect(f"{field} is refused", False)
    try:
        ask(input=LONG)
    except openai.BadRequestError as e:
        expect(f"code {e.code}", e.code == "context_length_exceeded")
        return e.code
    expect("a long input is refused", False)


run("openai", {f.__name__: f for f in (whole, events, stream_helper, conversation, incomplete, refusals)})
