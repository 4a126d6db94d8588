#!/usr/bin/env python3
"""Chats beside documents on pools of prefill and decode replicas, and on as many equal replicas: weirs of this machine behind a router.

    pools.py --weir ./weir --model m.gguf [--roles both,both,both] [--roles prefill,prefill,decode] [--threads N] [--cores]

With --cores each weir has a core of its own (taskset). Clients send a short chat, read it, and send the next one; a document comes every so many
seconds, and is answered with eight tokens. Needs no package.
"""
import argparse, http.client, json, os, random, re, subprocess, sys, tempfile, threading, time

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

WORDS = "the a river stone tree house light water mountain bird cloud road garden window story music winter summer letter paper green silver quiet early city".split()
PEER, PREFIX = "p" * 40, "prefix-secret-of-24-bytes"


def start(args, core, *flags):
    """A weir, its address and that of its admin listener."""
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    process = subprocess.Popen([*pinned, args.weir, *flags, "--port", "0", "--admin-address", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    api = admin = ""
    for line in process.stdout:
        api = api or (re.search(r" on (http://127\.0\.0\.1:\d+)", line) or ["", ""])[1]
        admin = admin or (re.search(r"(http://127\.0\.0\.1:\d+)/metrics", line) or ["", ""])[1]
        if api and admin:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, api, admin
    raise SystemExit("weir did not start: " + " ".join(flags))


def text(seed, words):
    r = random.Random(seed)
    return " ".join(r.choice(WORDS) + (str(r.randrange(1000)) if r.random() < 0.1 else "") for _ in range(words))


def ask(api, prompt, tokens):
    """When a chat was sent, and when its pieces came."""
    c = http.client.HTTPConnection(api.removeprefix("http://"), timeout=300)
    sent = time.monotonic()
    c.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}),
              {"Content-Type": "application/json"})
    r = c.getresponse()
    if r.status != 200:
        raise RuntimeError(r.read())
    came = [time.monotonic() for line in r if line.startswith(b"data: {") and any(x["delta"].get("content") for x in json.loads(line[6:])["choices"])]
    c.close()
    return sent, came


def quantile(values, q):
    return f"{1000 * sorted(values)[min(len(values) - 1, int(q * len(values)))]:.0f}" if values else "-"


def load(args, api):
    """Chats and documents as they were answered, and the seconds that it took."""
    chats, documents, failed, waiting = [], [], [], []
    began = time.monotonic()
    end = began + args.seconds

    def note(into, *asked):
        try:
            into.append(ask(api, *asked))
        except Exception as e:  # noqa: BLE001
            failed.append(e)

    def chat(k):
        pause, turn = random.Random(k), 0
        while time.monotonic() < end:
            note(chats, f"client {k} turn {turn}: " + text(1000 * k + turn, 20), 64)
            turn += 1
            time.sleep(pause.uniform(0.05, 0.5))

    clients = [threading.Thread(target=chat, args=(k,)) for k in range(args.chats)]
    for t in clients:
        t.start()
    between, i = random.Random(5), 0
    at = began + min(2, args.every)
    while at < end - 4:
        time.sleep(max(0, at - time.monotonic()))
        words = random.Random(i).randrange(*map(int, args.words.split("-")))
        waiting.append(threading.Thread(target=note, args=(documents, f"document {i}: " + text(10**6 + i, words), 8)))
        waiting[-1].start()
        at, i = at + between.uniform(0.6, 1.4) * args.every, i + 1
    for t in clients + waiting:
        t.join()
    return chats, documents, failed, time.monotonic() - began


def run(args, roles, folder):
    common = ["--served-model-name", "m", "--peer-key", PEER, "--prefix-cache-key", PREFIX, *(["--threads", str(args.threads)] if args.threads else [])]
    weirs = [start(args, i if args.cores else None, "serve", args.model, *common) for i in range(len(roles))]
    try:
        path = os.path.join(folder, "router.yml")
        with open(path, "w") as f:
            json.dump({"server": {"peer_key": [PEER]}, "engine": {"prefix_cache_key": PREFIX}, "models": [{"name": "m", "policy": "prefix", "tokenizer": args.model, "replicas": [
                {"url": api + "/v1", "admin_url": admin, "role": role, "model": "m"} for (_, api, admin), role in zip(weirs, roles)]}]}, f)
        weirs.append(start(args, None, "route", "--config", path))
        _, api, admin = weirs[-1]
        for i, (_, one, _) in enumerate(weirs[:-1]):
            ask(one, text(77 + i, 200), 4)
        time.sleep(5)  # the router hears how fast each is
        chats, documents, failed, took = load(args, api)
        gaps = [b - a for _, came in chats for a, b in zip(came, came[1:])]
        first = lambda list: [came[0] - sent for sent, came in list if came]
        tokens = sum(len(came) for _, came in chats + documents)
        print(f"{','.join(roles)}: {len(chats)} chats, {len(documents)} documents, {len(failed)} failed {failed[:1]}\n"
              f"  chats: TTFT p50 {quantile(first(chats), .5)}, p99 {quantile(first(chats), .99)} ms; ITL p50 {quantile(gaps, .5)}, p99 {quantile(gaps, .99)}, longest {quantile(gaps, 1)} ms\n"
              f"  documents: TTFT p50 {quantile(first(documents), .5)}, p99 {quantile(first(documents), .99)} ms; output {tokens / took:.0f} tokens/s", flush=True)
        c = http.client.HTTPConnection(admin.removeprefix("http://"))
        c.request("GET", "/metrics")
        outcomes = re.findall(r'weir_route_prefills_total\{.*outcome="(\w+)".*\} ([1-9]\d*)', c.getresponse().read().decode())
        print("  prompts by outcome:", dict(outcomes) or "no pools", flush=True)
        return len(failed)
    finally:
        for process, _, _ in weirs:
            process.terminate()
        for process, _, _ in weirs:
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--model", required=True)
    parser.add_argument("--roles", action="append", help="of the replicas; may be repeated: one run each")
    parser.add_argument("--threads", type=int, help="of each replica")
    parser.add_argument("--cores", action="store_true")
    parser.add_argument("--chats", type=int, default=4, help="clients that chat")
    parser.add_argument("--every", type=float, default=3, help="seconds between documents, in the mean")
    parser.add_argument("--words", default="500-1200", help="of a document")
    parser.add_argument("--seconds", type=float, default=50)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(sum(run(args, roles.split(","), folder) for roles in args.roles or ["both,both", "prefill,decode"]) > 0)


if __name__ == "__main__":
    main()
