#!/usr/bin/env python3
"""Each kind of request at a vLLM directly and through a router: the answers are the same, and the ledger has what the caller is told.

    same.py --weir ./weir --served m --vllm http://127.0.0.1:8001 --vllm http://127.0.0.1:8002

needs the package openai, and vLLMs that run, started with --enable-auto-tool-choice --tool-call-parser hermes; the first one is asked directly. With
others at work, vLLM's own answers at temperature 0 differ (sums of other order), so no others may ask them. The status is 1 if a case fails.
"""
import argparse, collections, json, os, subprocess, sys, tempfile, time, urllib.request

import openai

from engines import TOOL, start_weir

TALK = [{"role": "user", "content": "Name three rivers."}]
STRICT = {"type": "function", "function": {**TOOL["function"], "strict": True}}
RIVER = {"type": "object", "properties": {"river": {"type": "string", "maxLength": 20}, "length": {"type": "integer", "minimum": 0, "maximum": 9999}},
         "required": ["river", "length"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "river", "strict": True, "schema": RIVER}}
USAGE = {"include_usage": True}
OF_EACH = {"id", "created", "model", "system_fingerprint", "prompt_tokens_details"}  # an answer's own, or the cache's


def same_form(v):
    if isinstance(v, dict):
        return {k: same_form(x) for k, x in v.items() if k not in OF_EACH}
    return [same_form(x) for x in v] if isinstance(v, list) else v


def counted(usage):
    return (usage.prompt_tokens, usage.completion_tokens) if usage else None


def whole(make, fixed, **k):
    """An answer, and its usage."""
    def ask(client, model):
        r = make(client).create(model=model, **{**fixed, **k})
        return same_form(r.model_dump()), counted(r.usage)
    return ask


def stream(make, fixed, cut=0, **k):
    """What a stream says in all, and its usage; cut: the client hangs up after so many pieces."""
    def ask(client, model):
        texts, ends, arguments, logprobs, usage, pieces = collections.defaultdict(str), [], "", 0, None, 0
        with make(client).create(model=model, stream=True, **{**fixed, **k}) as chunks:
            for chunk in chunks:
                usage = counted(chunk.usage) or usage
                for c in chunk.choices:
                    said = c.text if hasattr(c, "text") else c.delta.content
                    pieces += bool(said)
                    texts[c.index] += said or ""
                    for call in getattr(getattr(c, "delta", None), "tool_calls", None) or []:
                        arguments += (call.function.name or "") + (call.function.arguments or "")
                    logprobs += len(c.logprobs.content) if getattr(c, "delta", None) and c.logprobs else 0
                    ends += [(c.index, c.finish_reason)] if c.finish_reason else []
                if cut and pieces >= cut:
                    return {"pieces": pieces}, None
        return {"texts": texts, "ends": sorted(ends), "arguments": arguments, "logprobs": logprobs, "usage": usage is not None}, usage
    return ask


def refused(**k):
    def ask(client, model):
        try:
            client.chat.completions.create(model=model, **{"messages": TALK, **k})
        except openai.APIStatusError as e:
            return [e.status_code, e.message.replace(f"`{model}`", "`M`")], (0, 0)
        raise AssertionError("it was not refused")
    return ask


def kinds():
    chat = lambda **k: whole(lambda c: c.chat.completions, {"messages": TALK, "temperature": 0, "max_tokens": 24}, **k)
    chats = lambda **k: stream(lambda c: c.chat.completions, {"messages": TALK, "temperature": 0, "max_tokens": 24}, **k)
    text = lambda **k: whole(lambda c: c.completions, {"prompt": "The river", "temperature": 0, "max_tokens": 16}, **k)
    texts = lambda **k: stream(lambda c: c.completions, {"prompt": "The river", "temperature": 0, "max_tokens": 16}, **k)
    return {
        "chat": chat(), "n": chat(n=3, temperature=0.8, seed=7), "logprobs": chat(logprobs=True, top_logprobs=3, max_tokens=6), "stop": chat(stop=["River", ".", "\n"]),
        "penalties and bias": chat(frequency_penalty=0.5, presence_penalty=0.2, logit_bias={"30": -100}),
        "a named tool": chat(tools=[STRICT], tool_choice={"type": "function", "function": {"name": "get_weather"}}, max_tokens=60), "a tool, if it likes": chat(tools=[STRICT]),
        "a schema": chat(max_tokens=60, response_format=FORMAT), "a JSON object": chat(max_tokens=40, response_format={"type": "json_object"}),
        "a regular expression": chat(extra_body={"structured_outputs": {"regex": "(yes|no), [a-z]{3,8}"}}), "a choice": chat(extra_body={"structured_outputs": {"choice": ["red", "green"]}}),
        "token ids": chat(max_tokens=5, extra_body={"return_token_ids": True}),
        "a last message goes on": chat(messages=TALK + [{"role": "assistant", "content": "The three rivers are"}], extra_body={"continue_final_message": True, "add_generation_prompt": False}),
        "vLLM's parameters": chat(max_tokens=40, extra_body={"min_tokens": 30, "ignore_eos": True, "top_k": 5, "min_p": 0.05, "repetition_penalty": 1.1}),
        "parts": chat(messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Name"}, {"type": "text", "text": " a river."}]}]),
        "a stream": chats(stream_options=USAGE), "a stream without usage": chats(), "a stream of two": chats(n=2, seed=3, temperature=0.7, logprobs=True, top_logprobs=1, stream_options=USAGE),
        "a stream of usage": chats(stream_options={**USAGE, "continuous_usage_stats": True}), "a stream that stops": chats(stop=["\n"], max_tokens=60, stream_options=USAGE),
        "a stream by a schema": chats(max_tokens=60, response_format=FORMAT, stream_options=USAGE), "a stream of a call": chats(tools=[STRICT], tool_choice="required", max_tokens=60, stream_options=USAGE),
        "a completion": text(), "echo": text(echo=True, logprobs=2, max_tokens=4), "two prompts, twice": text(prompt=["The river", "The city"], n=2, seed=1, temperature=0.5),
        "a prompt of ids": text(prompt=[504, 8970, 325]), "prompt_logprobs": text(max_tokens=2, extra_body={"prompt_logprobs": 1}),
        "a completion's stream": texts(stream_options=USAGE), "a completion's stream without usage": texts(),
        "temperature -1": refused(temperature=-1), "no schema": refused(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}),
        "a long prompt": refused(messages=[{"role": "user", "content": "word " * 5000}]), "too many tokens": refused(max_tokens=100000), "n 0": refused(n=0), "no messages": refused(messages=[]),
        "a hang-up": chats(cut=3, max_tokens=200, extra_body={"ignore_eos": True}), "a later hang-up": chats(cut=40, max_tokens=200, extra_body={"ignore_eos": True}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--served", required=True, help="the vLLMs' name of the model")
    parser.add_argument("--vllm", action="append", required=True, help="URL")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL, help="file for what the router logs")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "router.yml")
        with open(path, "w") as f:
            json.dump({"models": [{"name": "routed", "policy": "round_robin", "replicas": [{"url": u + "/v1", "kind": "vllm", "model": args.served} for u in args.vllm]}]}, f)
        process, port, _ = start_weir(args, "route", "--config", path, "--api-key", "client-key-of-16-bytes", "--store", f"sqlite:{folder}/weir.db")
        base = f"http://127.0.0.1:{port}"
        routed = openai.OpenAI(base_url=base + "/v1", api_key="client-key-of-16-bytes", max_retries=0, timeout=120)
        direct = openai.OpenAI(base_url=args.vllm[0] + "/v1", api_key="none", max_retries=0, timeout=120)

        def ledger():
            with urllib.request.urlopen(urllib.request.Request(base + "/v1/usage", headers={"Authorization": "Bearer client-key-of-16-bytes"})) as r:
                total = json.load(r)["total"]
            return total["input_tokens"], total["output_tokens"]

        for name, ask in kinds().items():
            if args.only and name not in args.only:
                continue
            try:
                want, usage = ask(direct, args.served)
                before = ledger()
                got, told = ask(routed, "routed")
                end = time.monotonic() + 5
                while (noted := tuple(b - a for a, b in zip(before, ledger()))) == (0, 0) and told != (0, 0) and time.monotonic() < end:
                    time.sleep(0.05)
                if got != want or told != usage:
                    raise AssertionError(f"the router's answer\n{json.dumps(got)[:600]} {told}\nis not\n{json.dumps(want)[:600]} {usage}")
                if told and noted != told:
                    raise AssertionError(f"the ledger has {noted}, and the caller {told}")
                print(f"ok    {name}: {told or 'no usage'}, ledger {noted}", flush=True)
            except Exception as e:  # noqa: BLE001  a failing case must not hide the others
                failed += 1
                print(f"FAIL  {name}: {type(e).__name__}: {e}", flush=True)
        process.terminate()
        process.wait()
    print(f"openai {openai.__version__}: {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
