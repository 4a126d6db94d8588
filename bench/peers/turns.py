#!/usr/bin/env python3
"""weir, llama.cpp and, where IK_LIB names a build of its library, ik_llama.cpp by turns on one model: prompts, decoding, 16 clients of servers.

    turns.py OUT.json MODEL.gguf ROUNDS PART…   parts: steps (a prompt of 512; 1, 4 and 16 sequences), prompts, tokens, served, long

prompts and tokens have all sides loaded at once and give each a turn of some seconds, a prompt of 512 or 12 tokens of one sequence: where memory of a
shared host is twice as fast in one minute as in the next, ratios within a round still hold. SIDES names those that are wanted, if not all have memory.

long reads 16 prompts of 8,192 tokens into weir first, which takes minutes, and measures when the file that WAIT names is there.

Adds to OUT.json what was measured, a list of figures per side. WEIR names weir's binary, LLAMA_LIB a build of llama.cpp for steps, GGML one of ggml
that is loaded before the wheel's own for its server (a wheel is built for AVX2), IK_SERVER the llama-server of ik_llama.cpp. Odd rounds of the others have repacked weights, even ones the file's.
"""
import json, os, pathlib, random, re, signal, subprocess, sys, threading, time, urllib.request

PEER = pathlib.Path(__file__).with_name("llamacpp.py")
WEIR = os.environ.get("WEIR", "weir")
WEIR_URL, IK_URL = "http://127.0.0.1:18471", "http://127.0.0.1:18472"


def weir_steps(file):
    def rows(*args):
        out = subprocess.run([WEIR, "bench", *args, "-m", file, "--kv-cache-memory-bytes", "3GiB", "-o", "json"], check=True, capture_output=True).stdout
        return {r["name"]: r["value"] for r in json.loads(out)["rows"]}

    engine = rows("engine", "-p", "512", "-n", "0", "-r", "1")
    batched = rows("batched", "--npp", "32", "--ntg", "16", "--npl", "1,4,16")
    return {"prompt_512": engine["pp512"]} | {f"decode_{n}": batched[f"npp32 ntg16 npl{n} S_TG"] for n in (1, 4, 16)}


def llama_steps(file, repack, library="LLAMA_LIB"):
    env = os.environ | {"REPEAT": "1", "LLAMA_LIB": os.environ.get(library, "")}
    return json.loads(subprocess.run([sys.executable, PEER, "speed", file, *["repacked"] * repack], check=True, capture_output=True, env=env).stdout)


def served(command, env, address):
    """Output tokens per second of 16 clients, each with a prompt of 32 words and 32 tokens after it, twice; and the first choices after a text."""
    server = subprocess.Popen(command, env=os.environ | env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        base = address(server)
        body = {"prompt": "The capital of France is the city where many people", "max_tokens": 1, "temperature": 0, "logprobs": 5}
        ask = urllib.request.Request(base + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        first = json.load(urllib.request.urlopen(ask))["choices"][0]
        name = f"/tmp/turns-{os.getpid()}.json"
        subprocess.run([WEIR, "bench", "serve", "--base-url", base, "--max-concurrency", "16", "--num-prompts", "32", "--random-input-len", "32",
                        "--random-output-len", "32", "--temperature", "0", "--save-result", "--result-filename", name, "--disable-progress"],
                       check=True, capture_output=True)
        r = json.loads(pathlib.Path(name).read_text())
        if r["failed"] or r["total_output_tokens"] != 32 * 32:
            print("answers:", r["completed"], r["total_output_tokens"], r.get("failures"), file=sys.stderr)
        return {"served_16": r["output_throughput"]}, first
    finally:
        server.stdin.close()
        server.terminate()
        server.wait()


def servers(file, repack):
    """The command, environment and address of each server. Those of the others have 16 slots of 512 tokens."""
    ik = "ik_llama.cpp" + " repacked" * repack
    preload = {"LD_PRELOAD": os.environ["GGML"]} if "GGML" in os.environ else {}
    all = {
        "weir": ([WEIR, "serve", file, "--port", "18471", "--admin-address", "off", "--max-model-len", "512"], {}, lambda _: ready(WEIR_URL)),
        "llama.cpp": ([sys.executable, PEER, "serve", file], preload | {"LLAMA_LIB": ""}, lambda server: server.stdout.readline().strip()),
        ik: ([os.environ.get("IK_SERVER", ""), "-m", file, "--port", "18472", "--threads", "2", "--parallel", "16", "--ctx-size", str(16 * 512)] +
             ["--run-time-repack"] * repack, {}, lambda _: ready(IK_URL)),
    }
    wanted = os.environ.get("SIDES", "weir,llama.cpp,ik_llama.cpp").split(",")
    return {side: all[side] for side in all if side.split()[0] in wanted and (side != ik or "IK_SERVER" in os.environ)}


def ready(base):
    """The address, once the model is loaded: until then its health is 503."""
    for _ in range(1200):
        try:
            urllib.request.urlopen(base + "/health").read()
            return base
        except OSError:
            time.sleep(0.25)
    raise SystemExit(f"{base} does not answer")


def stream(base, prompt, tokens, times):
    """Asks for so many tokens and notes when each came. An event can have several, where the bytes of one are no text yet."""
    body = {"prompt": prompt, "max_tokens": tokens, "min_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    ask = urllib.request.Request(base + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(ask) as answer:
        for line in answer:
            if count := re.search(rb'"completion_tokens":(\d+)', line):
                times += [time.perf_counter()] * (int(count[1]) - len(times))


def together(base, prompts, tokens):
    times = [[] for _ in prompts]
    threads = [threading.Thread(target=stream, args=(base, p, tokens, t)) for p, t in zip(prompts, times)]
    for t in threads:
        t.start()
    return threads, times


def weir_long(file, cache=3 << 30, length=8192, sequences=16):
    """Decoding where all sequences run, and the cache's memory meanwhile: prompts come from the prefix cache, which lacks the last block of each."""
    admin = "127.0.0.1:18472"
    server = subprocess.Popen([WEIR, "serve", file, "--port", "18471", "--admin-address", admin, "--max-model-len", str(length + 128),
                               "--kv-cache-memory-bytes", str(cache)], stderr=subprocess.DEVNULL)
    try:
        base, r = ready(WEIR_URL), random.Random(3)
        prompts = [[r.randrange(1000, 20000) for _ in range(length)] for _ in range(sequences)]
        for prompt in prompts:
            stream(base, prompt, 1, [])
        print(time.strftime("%H:%M:%S"), "read", flush=True)
        while "WAIT" in os.environ and not os.path.exists(os.environ["WAIT"]):
            time.sleep(1)
        threads, times = together(base, prompts, 64)
        while min(map(len, times)) < 16:
            time.sleep(0.05)
        metrics = urllib.request.urlopen(f"http://{admin}/metrics").read().decode()
        for t in threads:
            t.join()
        start, end = max(t[0] for t in times), min(t[-1] for t in times)
        count = sum(start < x <= end for t in times for x in t)
        usage = float(re.search(r"^vllm:kv_cache_usage_perc(?:{.*})? (\S+)", metrics, re.M)[1])
        return {"decode_16": count / (end - start), "cache": usage * cache, "counted": count}
    finally:
        server.terminate()
        server.wait()


class Bursts:
    """All sides on one model, loaded at once, over their input and output; weir over HTTP, its prompts as tokens."""

    def __init__(self, file):
        self.weir = subprocess.Popen([WEIR, "serve", file, "--port", "18471", "--admin-address", "off", "--max-model-len", "640", "--store", "off",
                                      "--kv-cache-memory-bytes", "1GiB"], stderr=subprocess.DEVNULL)
        self.peers, self.random = {}, random.Random(7)
        for side, library in ("llama.cpp", "LLAMA_LIB"), ("ik_llama.cpp", "IK_LIB"):
            for repack in (False, True):
                name = side + " repacked" * repack
                if library not in os.environ or name not in os.environ.get("SIDES", name).split(","):
                    continue
                env = os.environ | {"LLAMA_LIB": os.environ[library]}
                self.peers[name] = subprocess.Popen([sys.executable, PEER, "bursts", file, *["repacked"] * repack], env=env,
                                                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.base = ready(WEIR_URL)

    def close(self):
        for p in self.weir, *self.peers.values():
            p.terminate()
            p.wait()

    def measure(self, side, kind, n):
        if side == "weir":
            return self.measure_weir(kind, n)
        peer = self.peers[side]
        print(kind, n, file=peer.stdin, flush=True)
        return float(peer.stdout.readline())

    def measure_weir(self, kind, n):
        prompt, times, began = [self.random.randrange(1000, 20000) for _ in range(n if kind == "prompt" else 32)], [], time.perf_counter()
        stream(self.base, prompt, 1 if kind == "prompt" else n + 2, times)
        return n / (times[0] - began if kind == "prompt" else times[n + 1] - times[1])

    def round(self, sides, kind, n):
        """One figure of each side, in another order each time, after a pause in which threads that wait in a loop give up."""
        figures = {}
        for side in self.random.sample(sides, len(sides)):
            time.sleep(0.1)
            figures[side] = self.measure(side, kind, n)
        return figures


def weir_prompt(file):
    out = subprocess.run([WEIR, "bench", "engine", "-m", file, "-p", "8192", "-n", "0", "-r", "1", "--no-warmup", "--kv-cache-memory-bytes", "1GiB", "-o",
                          "json"], check=True, capture_output=True)
    return {"prompt_8192": json.loads(out.stdout)["rows"][0]["value"]}


def main(out, file, rounds, parts):
    out = pathlib.Path(out)
    result = json.loads(out.read_text()) if out.exists() else {}

    def add(side, figures):
        for name, value in figures.items():
            result.setdefault(side, {}).setdefault(name, []).append(value)
        out.write_text(json.dumps(result, indent=1))
        print(time.strftime("%H:%M:%S"), side, {k: round(v, 1) for k, v in figures.items()}, flush=True)

    if "long" in parts:
        add("weir", weir_prompt(file))
        add("weir", weir_long(file))
        add("llama.cpp", json.loads(subprocess.run([sys.executable, PEER, "long", file], check=True, capture_output=True).stdout))
    if turns := [kind for part, kind in (("prompts", ("prompt", 512)), ("tokens", ("decode", 12))) if part in parts]:
        all = Bursts(file)
        try:
            for i in range(-1, rounds):  # the first is not counted
                for kind, n in turns:
                    figures = all.round(["weir", *all.peers], kind, n)
                    for side, rate in figures.items() if i >= 0 else ():
                        add(side, {f"{kind}_{n}_burst": rate})
        finally:
            all.close()
    for i in range(rounds):
        repack = i % 2 == 0
        if "steps" in parts:
            add("weir", weir_steps(file))
            for side, library in ("llama.cpp", "LLAMA_LIB"), ("ik_llama.cpp", "IK_LIB"):
                if library in os.environ or side == "llama.cpp":
                    add(side + " repacked" * repack, llama_steps(file, repack, library))
        if "served" in parts:
            for side, (command, env, address) in servers(file, repack).items():
                figures, result.setdefault("first choices", {})[side] = served(command, env, address)
                add(side, figures)


if __name__ == "__main__":
    if len(sys.argv) < 5 or set(sys.argv[4:]) - {"steps", "prompts", "tokens", "served", "long"}:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends what it has started, too
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
