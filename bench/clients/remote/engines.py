#!/usr/bin/env python3
"""Another engine and another weir behind one router, as replicas of one model and each by itself.

    engines.py --weir ./weir --llama-server llama-server --model m.gguf

needs the package openai. A llama-server (a chat model and, restarted, a server of vectors) and a weir serve the same file under names and
keys of their own. weir route has them as replicas of the model "both", alone as "llama" and "weir", behind a wrong key as "locked", and
"ladder" falls back from a server that is not there to a weir. Cases ask through the router with OpenAI's client and kill the llama-server in
the middle of its streams. Everything is on loopback; the status is 1 if a case fails.
"""
import argparse, collections, json, os, re, socket, subprocess, sys, tempfile, threading, time, urllib.request

import openai

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

TALK = [{"role": "user", "content": "Name three rivers."}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}


def expect(what, ok):
    if not ok:
        raise AssertionError(what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class LlamaServer:
    """A llama-server on a port of its own, which may be killed and started again."""

    def __init__(self, args, *flags):
        self.command = [args.llama_server, "-m", args.model, "--host", "127.0.0.1", "--port", str(free_port()), "--api-key", "llama-key", "--metrics", "--threads-http", "64",
                        "-t", "1", "-c", "8192", "-np", "4", "--no-webui", "--alias", "llama-name", *flags]
        self.port, self.log = int(self.command[6]), args.log
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2).read()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("llama-server does not serve; --log shows why")

    def kill(self):
        self.process.kill()
        self.process.wait()


def start_weir(args, *flags):
    """A weir process, its port and that of its admin listener."""
    process = subprocess.Popen([args.weir, *flags, "--port", "0", "--admin-address", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=args.log, text=True)
    port = admin = 0
    for line in process.stdout:
        port = port or int((re.search(r" on http://127\.0\.0\.1:(\d+)", line) or [0, 0])[1])
        admin = admin or int((re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line) or [0, 0])[1])
        if port and admin:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, port, admin
    raise SystemExit("weir did not start: " + " ".join(flags))


class Cases:
    def __init__(self, args, base, admin, llama, ports):
        self.args, self.admin, self.llama, self.ports = args, admin, llama, ports
        self.client = openai.OpenAI(base_url=base + "/v1", api_key="client-key", max_retries=0, timeout=60)

    def ask(self, model="both", **parameters):
        """A chat's answer, and who gave it."""
        raw = self.client.chat.completions.with_raw_response.create(model=model, **{"messages": TALK, "temperature": 0, "max_tokens": 24, **parameters})
        return raw.parse(), raw.headers

    def refused(self, make):
        try:
            make()
        except openai.APIStatusError as e:
            return e
        raise AssertionError("it was not refused")

    def metric(self, name, **labels):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics").read().decode()
        rows = [line for line in text.splitlines() if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items())]
        return sum(float(line.rsplit(" ", 1)[1]) for line in rows)

    def replicas(self, model):
        status = json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/admin/replicas"))
        return next(m for m in status["models"] if m["model"] == model)["replicas"]

    def one_alias(self):
        """Both engines answer for one model, each under its own name of it and with its own key."""
        seen = collections.Counter()
        for i in range(8):
            r, headers = self.ask(messages=[{"role": "user", "content": f"Say a word about the number {i}."}])
            expect(f"the router's name of the model, not {r.model}", r.model == "both")
            expect("usage", r.usage.prompt_tokens > 5 and 0 < r.usage.completion_tokens <= 24)
            seen[headers["x-weir-replica"]] += 1
        expect(f"both of them, not {dict(seen)}", set(seen) == {f"127.0.0.1:{p}" for p in self.ports.values()})
        return dict(seen)

    def same_tokens(self):
        """The engines count the same prompt alike, and so does the router's metric of what was used."""
        counts = {m: self.ask(m)[0].usage.prompt_tokens for m in ("llama", "weir")}
        expect(f"the same prompt, {counts}", counts["llama"] == counts["weir"])
        before = self.metric("vllm:request_generation_tokens_sum", model_name="llama")
        used = self.ask("llama")[0].usage.completion_tokens
        expect("answers of the other engine are counted by its tokens", self.metric("vllm:request_generation_tokens_sum", model_name="llama") - before == used)
        return counts

    def streams(self):
        texts = {}
        for model in ("llama", "weir", "both"):
            whole, _ = self.ask(model)
            text, usage = "", None
            for chunk in self.client.chat.completions.create(model=model, messages=TALK, temperature=0, max_tokens=24, stream=True, stream_options={"include_usage": True}):
                expect("the router's name of the model", chunk.model == model)
                text += "".join(c.delta.content or "" for c in chunk.choices)
                usage = chunk.usage or usage
            expect(f"{model}: the same tokens as the whole answer", usage.completion_tokens == whole.usage.completion_tokens)
            expect(f"{model}: {text!r} equals {whole.choices[0].message.content!r}", model == "both" or text == whole.choices[0].message.content)
            texts[model] = text
        return texts["llama"]

    def tools(self):
        said = {}
        for model in ("weir", "llama"):
            try:
                r, _ = self.ask(model, tools=[TOOL], tool_choice="required", max_tokens=100)
                call = r.choices[0].message.tool_calls
                said[model] = call[0].function.arguments if call else "left out: the model's template has no tools"
                expect("a call by the schema", not call or json.loads(call[0].function.arguments)["city"] in ("Paris", "Rome"))
            except openai.APIStatusError as e:
                said[model] = f"refused: {e.status_code} {e.message[:80]}"
        expect(f"a weir calls, {said}", said["weir"].startswith("{"))
        return said

    def vectors(self):
        r = self.client.embeddings.create(model="vectors", input=["a river", "a city"])
        expect("two vectors", len(r.data) == 2 and len(r.data[0].embedding) == len(r.data[1].embedding) > 8 and r.usage.prompt_tokens > 2)
        return f"{len(r.data[0].embedding)} numbers"

    def wrong_key(self):
        e = self.refused(lambda: self.ask("locked"))
        expect(f"the router's own trouble, not {e.status_code} {e.message}", e.status_code == 502)
        expect("no key of a replica in the message", "wrong-key" not in str(e))
        return e.message

    def unknown_model(self):
        e = self.refused(lambda: self.ask("misnamed"))
        expect(f"the router's own trouble, not {e.status_code} {e.message}", e.status_code == 502)
        return e.message

    def ladder(self):
        _, headers = self.ask("ladder")
        expect("the fallback is named", headers["x-weir-fallback"] == "weir")
        return headers["x-weir-fallback"]

    def responses(self):
        """An API that a llama-server has not is written by the router."""
        r = self.client.responses.create(model="both", input="Name three rivers.", max_output_tokens=24, temperature=0, store=False)
        expect("a text and its usage", r.output_text and r.usage.output_tokens > 0)
        return r.output_text[:40]

    def killed(self):
        """The llama-server dies under its streams: each is told or goes on at the weir, and new requests are answered."""
        outcomes, lock, begun = collections.Counter(), threading.Lock(), threading.Semaphore(0)
        there = f"127.0.0.1:{self.llama.port}"

        def stream(i):
            text, outcome = "", "an end without a finish reason"
            try:
                raw = self.client.chat.completions.with_raw_response.create(
                    model="both", messages=[{"role": "user", "content": f"Tell a long story about the number {i}."}], temperature=0, max_tokens=200, stream=True,
                    extra_headers={"X-Weir-Resume": "1"} if i % 2 else {})
                first = raw.headers["x-weir-replica"]
                for chunk in raw.parse():
                    for c in chunk.choices:
                        if c.delta.content and not text:
                            begun.release()
                        text += c.delta.content or ""
                        if c.finish_reason:
                            outcome = "whole" + (", begun at the llama-server" if first == there else "")
            except openai.APIError as e:
                outcome = f"told: {e.message[:60]}"
            with lock:
                outcomes[("resumed: " if i % 2 else "") + outcome] += 1
        threads = [threading.Thread(target=stream, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for _ in threads:
            expect("streams begin", begun.acquire(timeout=30))
        self.llama.kill()
        r, headers = self.ask()
        expect("the weir answers", headers["x-weir-replica"] != there and r.choices)
        for t in threads:
            t.join()
        expect(f"no silent loss: {dict(outcomes)}", not any("without" in o for o in outcomes))
        expect(f"streams that go on elsewhere are whole: {dict(outcomes)}", not any(o.startswith("resumed: told") for o in outcomes))
        e = self.refused(lambda: self.ask("llama"))
        expect(f"its own model has no server, {e.status_code}", e.status_code in (502, 503))
        self.llama.start()
        end = time.monotonic() + 30
        while time.monotonic() < end and not all(r["state"] == "ready" for r in self.replicas("llama")):
            time.sleep(0.1)
        expect("it answers again", self.ask("llama")[0].choices)
        return dict(outcomes)

    def run(self):
        failed = 0
        cases = [self.one_alias, self.same_tokens, self.streams, self.tools, self.vectors, self.wrong_key, self.unknown_model, self.ladder, self.responses, self.killed]
        for case in cases:
            try:
                print(f"ok    {case.__name__}: {str(case())[:400]}", flush=True)
            except Exception as e:  # a failing case must not hide the others
                failed += 1
                print(f"FAIL  {case.__name__}: {type(e).__name__}: {str(e)[:600]}", flush=True)
        print(f"openai {openai.__version__}: {len(cases) - failed} passed, {failed} failed")
        return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--llama-server", default="llama-server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL, help="file for what the servers log")
    args = parser.parse_args()
    llamas, weirs = [], []
    try:
        llamas = [LlamaServer(args), LlamaServer(args, "--embeddings", "--pooling", "mean")]
        weirs.append(start_weir(args, "serve", args.model, "-t", "1", "--served-model-name", "weir-name", "--api-key", "weir-inner-key"))
        llama = {"url": f"http://127.0.0.1:{llamas[0].port}/v1", "kind": "llama-server", "model": "llama-name", "api_key": "llama-key"}
        weir = {"url": f"http://127.0.0.1:{weirs[0][1]}/v1", "model": "weir-name", "api_key": "weir-inner-key"}
        routing = {"probe_interval": "500ms", "breaker_pause": "1s", "retry_share": 1}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "router.yml")
            with open(path, "w") as f:
                json.dump({"models": [
                    {"name": "both", "policy": "least_load", "routing": routing, "replicas": [llama, weir]},
                    {"name": "llama", "routing": routing, "replicas": [llama]},
                    {"name": "weir", "replicas": [weir]},
                    {"name": "vectors", "replicas": [{**llama, "url": f"http://127.0.0.1:{llamas[1].port}/v1"}]},
                    {"name": "locked", "replicas": [{**weir, "api_key": "a-wrong-key"}]},
                    {"name": "misnamed", "replicas": [{**weir, "model": "no-such-model"}]},
                    {"name": "ladder", "fallback": ["weir"], "replicas": [{"url": "http://127.0.0.1:9/v1"}]},
                ]}, f)
            weirs.append(start_weir(args, "route", "--config", path, "--api-key", "client-key"))
            _, port, admin = weirs[1]
            failed = Cases(args, f"http://127.0.0.1:{port}", admin, llamas[0], {"llama": llamas[0].port, "weir": weirs[0][1]}).run()
    finally:
        for server in llamas:
            server.kill()
        for process, _, _ in weirs:
            process.terminate()
            process.wait()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
