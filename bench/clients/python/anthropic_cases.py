"""POST /v1/messages by Anthropic's Python client."""

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


run("anthropic", {f.__name__: f for f in (whole, stream_helper, events, count_tokens, stop_sequence, beta, refusals)})
