#!/usr/bin/env python3
"""vLLMs behind a router: the official clients, what the policies find in their caches, and kill -9 of one under load.

    vllm.py --weir ./weir --tokenizer m.gguf --served m --vllm http://127.0.0.1:8001,ipc:///run/kv1.sock,ipc:///run/replay1.sock,PID --vllm ...

needs the packages openai and anthropic, and vLLMs that run, started as docs/kv-transfer.md says, with
--enable-prompt-tokens-details --enable-auto-tool-choice --tool-call-parser hermes and the topic "kv". The last one is killed with all its children,
if it has a PID. The status is 1 if a case fails.
"""
import argparse, collections, concurrent.futures, json, os, random, signal, subprocess, sys, tempfile, threading, time

import anthropic
import openai

from engines import TOOL, expect, start_weir

STRICT = {"type": "function", "function": {**TOOL["function"], "strict": True}}  # others vLLM does not hold to their schemas
TALK = [{"role": "user", "content": "Name three rivers."}]
SCHEMA = {"type": "object", "properties": {"river": {"type": "string", "maxLength": 20}, "length": {"type": "integer", "minimum": 0, "maximum": 9999}},
          "required": ["river", "length"], "additionalProperties": False}
WORDS = "river stone apple quiet green engine window paper garden silver market forest yellow thunder orange planet".split()


class Router:
    """weir route before all vLLMs."""

    def __init__(self, args, policy, events=False, vllms=None):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "router.yml")
        replicas = []
        for url, endpoint, replay, _ in vllms or args.vllm:
            replicas.append({"url": url + "/v1", "kind": "vllm", "model": args.served})
            if events:
                replicas[-1]["kv_events"] = {"endpoint": endpoint, "replay_endpoint": replay, "topic": "kv"}
        model = {"name": "chat", "policy": policy, "replicas": replicas, "routing": {"probe_interval": "500ms"}}
        if events:
            model["tokenizer"] = args.tokenizer
        with open(path, "w") as f:
            json.dump({"models": [model]}, f)
        self.process, self.port, self.admin = start_weir(args, "route", "--config", path, "--api-key", "client-key")
        self.base = f"http://127.0.0.1:{self.port}"
        self.client = openai.OpenAI(base_url=self.base + "/v1", api_key="client-key", max_retries=0, timeout=120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, **parameters):
        raw = self.client.chat.completions.with_raw_response.create(model="chat", **{"messages": TALK, "temperature": 0, "max_tokens": 24, **parameters})
        return raw.parse(), raw.headers


class Clients:
    """OpenAI's and Anthropic's clients."""

    def __init__(self, router):
        self.router, self.client = router, router.client
        self.anthropic = anthropic.Anthropic(base_url=router.base, api_key="client-key", max_retries=0, timeout=120)

    def chat(self):
        r, headers = self.router.ask()
        expect("the router's name, a text and its usage", r.model == "chat" and r.choices[0].message.content and r.usage.completion_tokens == 24)
        return r.choices[0].message.content[:60]

    def stream(self):
        text, usage, reason = "", None, None
        for chunk in self.client.chat.completions.create(model="chat", messages=TALK, temperature=0, max_tokens=24, stream=True, stream_options={"include_usage": True}):
            text += "".join(c.delta.content or "" for c in chunk.choices)
            reason = next((c.finish_reason for c in chunk.choices if c.finish_reason), reason)
            usage = chunk.usage or usage
        expect(f"a whole stream, not {reason}, {usage}", reason == "length" and usage.completion_tokens == 24)
        expect("the text of a whole answer", text == self.router.ask()[0].choices[0].message.content)
        return text[:60]

    def tools(self):
        r, _ = self.router.ask(tools=[STRICT], tool_choice={"type": "function", "function": {"name": "get_weather"}}, max_tokens=100)
        call = r.choices[0].message.tool_calls[0]
        expect(f"a call by the schema, not {call}", call.function.name == "get_weather" and json.loads(call.function.arguments)["city"] in ("Paris", "Rome"))
        return call.function.arguments

    def tools_streamed(self):
        name, arguments = "", ""
        for chunk in self.client.chat.completions.create(model="chat", messages=TALK, temperature=0, max_tokens=100, stream=True, tools=[STRICT],
                                                         tool_choice={"type": "function", "function": {"name": "get_weather"}}):
            for c in chunk.choices:
                for call in c.delta.tool_calls or []:
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
        expect(f"a call by the schema, not {name!r} {arguments!r}", name == "get_weather" and json.loads(arguments)["city"] in ("Paris", "Rome"))
        return arguments

    def schema(self):
        r, _ = self.router.ask(max_tokens=80, response_format={"type": "json_schema", "json_schema": {"name": "river", "strict": True, "schema": SCHEMA}})
        said = json.loads(r.choices[0].message.content)
        expect(f"an answer by the schema, not {said}", set(said) == {"river", "length"} and isinstance(said["length"], int))
        return said

    def logprobs(self):
        r, _ = self.router.ask(max_tokens=4, logprobs=True, top_logprobs=2)
        expect("four tokens with two others each", [len(t.top_logprobs) for t in r.choices[0].logprobs.content] == [2] * 4)
        return r.choices[0].logprobs.content[0].token

    def refused(self):
        try:
            self.router.ask(messages=[{"role": "user", "content": "word " * 5000}])
        except openai.BadRequestError as e:
            return e.message[:120]
        raise AssertionError("a prompt that is too long was taken")

    def responses(self):
        r = self.client.responses.create(model="chat", input="Name three rivers.", max_output_tokens=24, temperature=0, store=False)
        expect("a text and its usage", r.output_text and r.usage.output_tokens == 24 and r.status == "incomplete")
        return r.output_text[:60]

    def responses_streamed(self):
        with self.client.responses.stream(model="chat", input="Name three rivers.", max_output_tokens=24, temperature=0, store=False) as s:
            kinds = collections.Counter(event.type for event in s)
        expect(f"a beginning, deltas and an end: {dict(kinds)}", kinds["response.created"] == 1 and kinds["response.output_text.delta"] > 5 and kinds["response.incomplete"] == 1)
        return dict(kinds)

    def messages(self):
        m = self.anthropic.messages.create(model="chat", max_tokens=24, system="Be brief.", messages=TALK)
        expect(f"a text and its usage, not {m}", m.content[0].text and m.usage.output_tokens == 24 and m.stop_reason == "max_tokens")
        return m.content[0].text[:60]

    def messages_streamed(self):
        with self.anthropic.messages.stream(model="chat", max_tokens=24, messages=TALK) as s:
            text = "".join(s.text_stream)
            final = s.get_final_message()
        expect(f"a text and its usage, not {final}", text and final.usage.output_tokens == 24 and final.stop_reason == "max_tokens")
        return text[:60]

    def messages_tools(self):
        m = self.anthropic.messages.create(model="chat", max_tokens=100, messages=TALK, tool_choice={"type": "tool", "name": "get_weather"},
                                           tools=[{"name": "get_weather", "strict": True, "description": "The weather of a city", "input_schema": TOOL["function"]["parameters"]}])
        call = next(b for b in m.content if b.type == "tool_use")
        expect(f"a call by the schema, not {m}", call.input["city"] in ("Paris", "Rome") and m.stop_reason == "tool_use")
        return call.input

    def run(self):
        failed = 0
        for case in (self.chat, self.stream, self.tools, self.tools_streamed, self.schema, self.logprobs, self.refused, self.responses, self.responses_streamed,
                     self.messages, self.messages_streamed, self.messages_tools):
            try:
                print(f"ok    {case.__name__}: {str(case())[:200]}", flush=True)
            except Exception as e:  # a failing case must not hide the others
                failed += 1
                print(f"FAIL  {case.__name__}: {type(e).__name__}: {str(e)[:600]}", flush=True)
        return failed


def conversations(routers, seed, count, turns, words_each, at_once=4):
    """Conversations with few system prompts: tokens of their prompts, and how many of them the replicas had cached. Turn i goes to router i."""
    words = random.Random(seed)
    sentence = lambda n: " ".join(words.choice(WORDS) for _ in range(n))
    systems = [f"You are helper {seed}{i}. " + sentence(150) for i in range(count // 4)]
    talks = [[{"role": "system", "content": systems[i % len(systems)]}] for i in range(count)]
    prompt = cached = right = 0
    reasons = collections.Counter()
    for turn in range(turns):
        for talk in talks:
            talk.append({"role": "user", "content": sentence(words_each)})
        order = words.sample(talks, len(talks))
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            router = routers[turn % len(routers)]
            for talk, (r, headers) in zip(order, pool.map(lambda talk: router.ask(messages=talk, max_tokens=8), order)):
                talk.append({"role": "assistant", "content": r.choices[0].message.content})
                prompt += r.usage.prompt_tokens
                cached += (r.usage.prompt_tokens_details and r.usage.prompt_tokens_details.cached_tokens) or 0
                reasons[headers["x-weir-route-reason"].split()[0]] += 1
    return prompt, cached, dict(reasons)


def policies(args):
    """Cached tokens by policy: with one router for all turns, and with another one for each, which knows nothing of what the others sent. One vLLM alone has the most."""
    with Router(args, "round_robin", vllms=args.vllm[:1]) as one:
        prompt, cached, _ = conversations([one], args.seed, args.conversations, args.turns, args.words)
    print(f"one vLLM alone: {cached} of {prompt} prompt tokens cached ({100 * cached / prompt:.1f} %)", flush=True)
    for routers in (1, args.turns):
        for i, (name, policy, events) in enumerate((("round robin", "round_robin", False), ("prefix by text", "prefix", False), ("prefix by KV events", "prefix", True))):
            began = time.monotonic()
            made = [Router(args, policy, events) for _ in range(routers)]
            try:
                prompt, cached, reasons = conversations(made, args.seed + 10 * routers + i, args.conversations, args.turns, args.words)
            finally:
                for r in made:
                    r.__exit__()
            print(f"{routers} router(s), {name}: {cached} of {prompt} prompt tokens cached ({100 * cached / prompt:.1f} %), {time.monotonic() - began:.0f} s, {reasons}", flush=True)


def killed(args):
    """Streams in a closed loop while one vLLM is killed: what each client sees."""
    pid = int(args.vllm[-1][3])
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    grand = [g for c in children for g in subprocess.run(["ps", "-o", "pid=", "--ppid", c], capture_output=True, text=True).stdout.split()]
    outcomes, lock, started = collections.Counter(), threading.Lock(), threading.Semaphore(0)

    def stream(router, i, resume):
        pieces, usage, reason = [], 0, None
        outcome = "silent: an end without a finish reason"
        started.release()
        try:
            for chunk in router.client.chat.completions.create(
                    model="chat", messages=[{"role": "user", "content": f"Tell a long story about the number {i}."}], temperature=0, max_tokens=40, stream=True,
                    stream_options={"include_usage": True}, extra_body={"ignore_eos": True}, extra_headers={"X-Weir-Resume": "1"} if resume else {}):
                usage = chunk.usage.completion_tokens if chunk.usage else usage
                for c in chunk.choices:
                    pieces += [c.delta.content] if c.delta.content else []
                    reason = c.finish_reason or reason
            if reason:
                outcome = "right" if usage == 40 else f"whole, of {usage} tokens"
                if usage and len(pieces) > usage:
                    outcome = "doubled"
        except openai.APIError as e:
            outcome = "told"
        with lock:
            outcomes[outcome] += 1

    resume = args.resume
    with Router(args, "prefix", True) as router, concurrent.futures.ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(stream, router, i, resume) for i in range(args.streams)]
        for _ in range(args.streams // 3):
            started.acquire()
        for p in [pid, *map(int, children), *map(int, grand)]:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for job in jobs:
            job.result()
    print(f"kill -9 of one of {len(args.vllm)} under {args.streams} streams, 6 at once{', x-weir-resume' if resume else ''}: {dict(outcomes)}", flush=True)
    return sum(n for what, n in outcomes.items() if what not in ("right", "told"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--tokenizer", required=True, help="GGUF file of the model")
    parser.add_argument("--served", required=True, help="the vLLMs' name of the model")
    parser.add_argument("--vllm", action="append", required=True, type=lambda s: (s + ",,,").split(",")[:4], help="URL,ENDPOINT,REPLAY_ENDPOINT,PID")
    parser.add_argument("--conversations", type=int, default=24)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--words", type=int, default=120, help="of each question")
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the words: another one for each run, since caches stay")
    parser.add_argument("--only", nargs="+", choices=["clients", "policies", "killed"], default=["clients", "policies", "killed"])
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL, help="file for what the routers log")
    args = parser.parse_args()
    failed = 0
    if "clients" in args.only:
        with Router(args, "prefix", True) as router:
            failed += Clients(router).run()
        print(f"openai {openai.__version__}, anthropic {anthropic.__version__}: {failed} failed")
    if "policies" in args.only:
        policies(args)
    if "killed" in args.only and args.vllm[-1][3]:
        failed += killed(args)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
