"""Ollama's own client: each of its methods, and each again without waiting."""

import asyncio
import json
import sys

import ollama
from case import MODEL, expect, run

HOST = sys.argv[1]
client = ollama.Client(host=HOST)
ASK = [{"role": "user", "content": "Hello"}]
SHORT = {"temperature": 0, "num_predict": 16}
CALLS = "tools" in (client.show(MODEL).capabilities or [])


def refused(call, status):
    try:
        call()
    except ollama.ResponseError as e:
        expect(f"status {status}, not {e.status_code}", e.status_code == status)
        expect("a text", isinstance(e.error, str) and e.error)
        return e.error
    raise AssertionError("accepted")


def finished(r):
    expect("an end", r.done and r.done_reason in ("stop", "length"))
    for name in ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"):
        expect(name, getattr(r, name) > 0)
    return r


def chat():
    r = finished(client.chat(MODEL, ASK, options=SHORT))
    expect("the model as it was asked for", r.model == MODEL and r.message.role == "assistant" and r.created_at)
    return r.message.content


def chat_stream():
    parts = list(client.chat(MODEL, ASK, stream=True, options=SHORT))
    finished(parts[-1])
    expect("one end", sum(bool(p.done) for p in parts) == 1)
    text = "".join(p.message.content or "" for p in parts)
    expect("the same text", text == client.chat(MODEL, ASK, options=SHORT).message.content)
    return text


def tagged():
    return finished(client.chat(MODEL + ":latest", ASK, options=SHORT)).model


def conversation():
    r = client.chat(MODEL, [{"role": "system", "content": "Be brief."}, *ASK, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Again"}], options=SHORT)
    return finished(r).message.content


def prefill():
    r = client.chat(MODEL, [*ASK, {"role": "assistant", "content": "Once upon"}], options=SHORT)
    return finished(r).message.content


def json_mode():
    r = client.chat(MODEL, ASK, format="json", options={"temperature": 0, "num_predict": 200})
    if r.done_reason == "stop":
        expect("an object", isinstance(json.loads(r.message.content), dict))
    return r.message.content


def schema():
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}, "number": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["colour", "number"]}
    for r in (client.chat(MODEL, ASK, format=schema, options={"temperature": 0, "num_predict": 200}).message.content,
              client.generate(MODEL, "Hello", format=schema, options={"temperature": 0, "num_predict": 200}).response):
        expect("the schema holds", json.loads(r)["colour"] in ("red", "blue"))
    return r


def weather(city: str) -> str:
    """Tells the weather.

    Args:
      city: the name of a city
    """
    return f"In {city} it rains."


def tools():
    if not CALLS:
        return refused(lambda: client.chat(MODEL, ASK, tools=[weather]), 400)
    ask = [{"role": "user", "content": "What is the weather in Oslo? Call the tool."}]
    r = client.chat(MODEL, ask, tools=[weather], options={"temperature": 0, "num_predict": 80})
    parts = list(client.chat(MODEL, ask, tools=[weather], stream=True, options={"temperature": 0, "num_predict": 80}))
    streamed = [c for p in parts for c in p.message.tool_calls or []]
    whole = list(r.message.tool_calls or [])
    expect("the same calls", [c.function.arguments for c in streamed] == [c.function.arguments for c in whole])
    for call in whole:
        expect("arguments are an object", isinstance(call.function.arguments, dict))
        answer = client.chat(MODEL, [*ask, r.message, {"role": "tool", "tool_name": call.function.name, "content": "It rains."}], tools=[weather], options=SHORT)
        finished(answer)
    return whole


def results():
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Oslo"}}}]}
    if not CALLS:
        return "no tools"
    return finished(client.chat(MODEL, [*ASK, call, {"role": "tool", "content": "It rains.", "tool_name": "weather"}], tools=[weather], options=SHORT)).message.content


def logprobs():
    r = client.chat(MODEL, ASK, logprobs=True, top_logprobs=2, options=SHORT)
    expect("two alternatives", r.logprobs and all(len(t.top_logprobs) == 2 for t in r.logprobs))
    parts = list(client.generate(MODEL, "Hello", stream=True, logprobs=True, options=SHORT))
    expect("as many in a stream", sum(len(p.logprobs or []) for p in parts) > 0)
    return r.logprobs[0].token


def generate():
    r = finished(client.generate(MODEL, "Hello", system="Be brief.", options=SHORT))
    expect("a context", len(r.context) > r.eval_count)
    more = finished(client.generate(MODEL, "Again", context=r.context, options=SHORT))
    expect("a longer prompt", more.prompt_eval_count > r.prompt_eval_count)
    return more.response


def generate_stream():
    parts = list(client.generate(MODEL, "Hello", stream=True, options=SHORT))
    finished(parts[-1])
    expect("the context ends it", parts[-1].context)
    return "".join(p.response for p in parts)


def raw():
    r = finished(client.generate(MODEL, "Hello", raw=True, options=SHORT))
    expect("no context", not r.context)
    refused(lambda: client.generate(MODEL, "Hello", raw=True, system="Be brief."), 400)
    return r.response


def template():
    r = client.generate(MODEL, "Hello", system="Be brief.", template="{{ if .System }}{{ .System }} {{ end }}{{ .Prompt }}", options=SHORT)
    plain = client.generate(MODEL, "Be brief. Hello", raw=True, options=SHORT)
    expect("the same prompt", r.prompt_eval_count == plain.prompt_eval_count and r.response == plain.response)
    return refused(lambda: client.generate(MODEL, "Hello", template="{{ range 1000000000 }}{{ end }}"), 400)


def suffix():
    if "insert" not in client.show(MODEL).capabilities:
        return refused(lambda: client.generate(MODEL, "def add(", suffix="return a + b"), 400)
    return finished(client.generate(MODEL, "def add(", suffix="    return a + b", options=SHORT)).response


def images():
    return refused(lambda: client.chat(MODEL, [{"role": "user", "content": "What is this?", "images": [b"\x89PNG"]}]), 400)


def thinking():
    thinks = "thinking" in client.show(MODEL).capabilities
    if not thinks:
        finished(client.chat(MODEL, ASK, think=False, options=SHORT))
        return refused(lambda: client.chat(MODEL, ASK, think=True), 400)
    return client.chat(MODEL, ASK, think=True).message.thinking


def options():
    word = client.chat(MODEL, ASK, options=SHORT).message.content.split()[0]
    r = client.chat(MODEL, ASK, options={**SHORT, "stop": [word]})
    expect("it stops", word not in r.message.content)
    same = [client.chat(MODEL, ASK, options={"seed": 7, "num_predict": 16, "top_k": 40, "top_p": 0.9, "min_p": 0.01, "repeat_penalty": 1.1, "repeat_last_n": -1,
                                             "presence_penalty": 0.5, "frequency_penalty": 0.5, "num_ctx": 128, "num_gpu": 1, "num_thread": 2}).message.content for _ in range(2)]
    expect("the same seed, the same text", same[0] == same[1])
    return refused(lambda: client.chat(MODEL, ASK, options={"top_k": "many"}), 400)


def loads():
    r = client.generate(MODEL, "", keep_alive="5m")
    expect("it is loaded", r.done and r.done_reason == "load")
    expect("it runs", MODEL in [m.model.removesuffix(":latest") for m in client.ps().models])
    r = client.chat(MODEL, [], keep_alive=0)
    expect("it is unloaded", r.done_reason == "unload")
    expect("it does not run", MODEL not in [m.model.removesuffix(":latest") for m in client.ps().models])
    finished(client.chat(MODEL, ASK, options=SHORT))
    return client.ps().models[0].expires_at


def lists():
    m = client.list().models[0]
    expect("details", m.details.format == "gguf" and m.details.family and m.details.parameter_size and m.details.quantization_level)
    expect("a file", m.size > 0 and len(m.digest) == 64 and m.modified_at)
    return m.model


def shows():
    s = client.show(MODEL)
    expect("completion", "completion" in s.capabilities)
    expect("metadata", s.modelinfo["general.architecture"] == s.details.family and s.modelinfo["tokenizer.ggml.tokens"] == [])
    expect("a template", s.template and s.modelfile and s.modified_at)
    return s.capabilities


def unknown():
    text = refused(lambda: client.chat("no-such-model", ASK), 404)
    expect("the words", "model 'no-such-model' not found" in text)
    refused(lambda: list(client.generate("no-such-model", "Hello", stream=True)), 404)
    refused(lambda: client.show("no-such-model"), 404)
    return text


def embeds():
    if "embedding" in client.show(MODEL).capabilities:
        return len(client.embed(MODEL, ["a", "b"]).embeddings)
    refused(lambda: client.embeddings(MODEL, "a"), 400)
    return refused(lambda: client.embed(MODEL, "a"), 400)


def changes():
    expect("a model that is here is pulled", client.pull(MODEL).status == "success" and [p.status for p in client.pull(MODEL, stream=True)][-1] == "success")
    refused(lambda: client.pull("no-such-model:1b"), 501)
    for call in (lambda: client.create("x", from_=MODEL), lambda: client.copy(MODEL, "x"), lambda: client.delete("x"), lambda: client.push("x")):
        text = refused(call, 501)
    return text


def overflow():
    r = client.chat(MODEL, [{"role": "user", "content": "first"}, {"role": "assistant", "content": "words " * 3000}, {"role": "user", "content": "Hello"}],
                    options={**SHORT, "num_ctx": 256})
    expect("the oldest messages were left out", finished(r).prompt_eval_count < 256)
    text = refused(lambda: client.chat(MODEL, [{"role": "user", "content": "many words and no end " * 20000}]), 400)
    expect("the words", "exceeds the context length" in text)
    return text


def asynchronous():
    async def all_of():
        c = ollama.AsyncClient(host=HOST)
        r = finished(await c.chat(MODEL, ASK, options=SHORT))
        text = "".join([p.message.content or "" async for p in await c.chat(MODEL, ASK, stream=True, options=SHORT)])
        expect("the same text", text == r.message.content)
        finished(await c.generate(MODEL, "Hello", options=SHORT))
        parts = [p async for p in await c.generate(MODEL, "Hello", stream=True, options=SHORT)]
        finished(parts[-1])
        expect("lists", (await c.list()).models and (await c.show(MODEL)).details and (await c.ps()).models)
        for call in (c.embed(MODEL, "a"), c.embeddings(MODEL, "a"), c.create("x", from_=MODEL), c.copy(MODEL, "x"), c.delete("x"), c.push("x"), c.pull("no-such-model-anywhere:1")):
            try:
                await call
            except ollama.ResponseError:
                continue
            raise AssertionError("accepted")
        return text
    return asyncio.run(all_of())


CASES = [chat, chat_stream, tagged, conversation, prefill, json_mode, schema, tools, results, logprobs, generate, generate_stream, raw, template, suffix, images, thinking,
         options, lists, shows, unknown, embeds, changes, overflow, asynchronous, loads]
run("ollama", {f.__name__: f for f in CASES})
