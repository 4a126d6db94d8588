"""LiteLLM, which tells errors apart by their text."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prices come with the package; none are fetched

import litellm  # noqa: E402

from case import ASK, BASE, KEY, LONG, MODEL, expect, run  # noqa: E402

litellm.suppress_debug_info = True


def ask(provider="openai", **parameters):
    return litellm.completion(model=f"{provider}/{MODEL}", api_base=BASE, api_key=KEY, num_retries=0, **{
        "messages": ASK, "temperature": 0, "max_tokens": 24, **parameters})


def chat():
    r = ask()
    expect("a finish reason", r.choices[0].finish_reason in ("stop", "length"))
    expect("usage adds up", r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens)
    return r.choices[0].message.content


def as_vllm():
    r = ask(provider="hosted_vllm", top_k=1, repetition_penalty=1.0, reasoning_effort="none")
    expect("the same answer", r.choices[0].message.content == ask().choices[0].message.content)
    return r.choices[0].message.content


def stream():
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks)
    expect("the same text", whole.choices[0].message.content == ask().choices[0].message.content)
    expect("usage", whole.usage.completion_tokens > 0)
    return whole.choices[0].message.content


def completion():
    r = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt="Hello", max_tokens=5, temperature=0,
                                api_base=BASE, api_key=KEY)
    expect("text", r.choices[0].text)
    return r.choices[0].text


def stops():
    word = ask().choices[0].message.content.split()[1]
    r = ask(stop=[word])
    expect(f"nothing from {word!r} on", word not in r.choices[0].message.content and r.choices[0].finish_reason == "stop")
    return f"ended before {word!r}"


def overflow():
    try:
        ask(messages=LONG)
    except litellm.ContextWindowExceededError as e:
        return e.message
    raise AssertionError("no error")


def refusal():
    try:
        ask(extra_body={"best_of": 2})
    except litellm.BadRequestError as e:
        expect("the parameter is named", "best_of" in e.message)
        return e.message
    raise AssertionError("best_of was accepted")


def unknown_model():
    try:
        litellm.completion(model="openai/no-such-model", api_base=BASE, api_key=KEY, messages=ASK, num_retries=0)
    except litellm.NotFoundError as e:
        return e.message
    raise AssertionError("an unknown model was accepted")


run("litellm", {"chat": chat, "as hosted_vllm": as_vllm, "stream": stream, "completion": completion, "stops": stops,
                "overflow": overflow, "refused parameter": refusal, "unknown model": unknown_model})
