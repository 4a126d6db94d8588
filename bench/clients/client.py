"""The official Python client against a running server: python client.py BASE_URL"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="unused", max_retries=0)
passed = failed = 0


def case(name, check):
    global passed, failed
    try:
        said = check()
        passed += 1
        print(f"ok    {name}: {said}")
    except Exception as e:  # a failing case must not hide the others
        failed += 1
        print(f"FAIL  {name}: {type(e).__name__}: {e}")


def expect(what, ok):
    if not ok:
        raise AssertionError(what)


ASK = [{"role": "user", "content": "Hello"}]


def models():
    ids = [m.id for m in client.models.list()]
    expect("a model is listed", ids)
    expect("it can be retrieved", client.models.retrieve(ids[0]).id == ids[0])
    return ids


MODEL = client.models.list().data[0].id


def chat():
    r = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_completion_tokens=40)
    expect("a finish reason", r.choices[0].finish_reason in ("stop", "length"))
    expect("usage adds up", r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens)
    return r.choices[0].message.content


def chat_stream():
    text, usage, finish = "", None, None
    with client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_completion_tokens=40,
                                        stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
            usage = chunk.usage or usage
    whole = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_completion_tokens=40)
    expect(f"streamed {text!r} equals {whole.choices[0].message.content!r}", text == whole.choices[0].message.content)
    expect("usage and finish reason came", usage.completion_tokens > 0 and finish in ("stop", "length"))
    return text


def choices():
    r = client.chat.completions.create(model=MODEL, messages=ASK, n=3, seed=7, temperature=1, max_completion_tokens=8,
                                       logprobs=True, top_logprobs=2)
    expect("three choices", [c.index for c in r.choices] == [0, 1, 2])
    expect("two alternatives per token", all(len(t.top_logprobs) == 2 for c in r.choices for t in c.logprobs.content))
    return [c.message.content for c in r.choices]


def completion():
    r = client.completions.create(model=MODEL, prompt="Hello", max_tokens=5, temperature=0, echo=True, logprobs=1)
    expect("echoed", r.choices[0].text.startswith("Hello"))
    expect("as many tokens as logprobs", len(r.choices[0].logprobs.tokens) == len(r.choices[0].logprobs.token_logprobs))
    return r.choices[0].text


def refusal():
    try:
        client.chat.completions.create(model=MODEL, messages=ASK, tools=[{"type": "function", "function": {"name": "f"}}])
    except openai.BadRequestError as e:
        expect("the parameter is named", e.param == "tools" and e.code == "unsupported_parameter")
        return e.message
    raise AssertionError("tools were accepted")


def unknown_model():
    try:
        client.chat.completions.create(model="no-such-model", messages=ASK)
    except openai.NotFoundError as e:
        expect("the code says so", e.code == "model_not_found")
        return e.message
    raise AssertionError("an unknown model was accepted")


def leave():
    stream = client.chat.completions.create(model=MODEL, messages=ASK, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    return "left after the first event"


for name, check in [("models", models), ("chat", chat), ("chat, streaming", chat_stream), ("n and logprobs", choices),
                    ("completion", completion), ("refused parameter", refusal), ("unknown model", unknown_model),
                    ("leaving a stream", leave)]:
    case(name, check)
print(f"openai-python {openai.__version__}: {passed} passed, {failed} failed")
sys.exit(failed > 0)
