#!/usr/bin/env python3
"""What copies for a rollout cost the users: the same load with and without them, in turns.

    shadow.py --weir ./weir [--model m.gguf] [--rounds 6] [--seconds 6] [--clients 4]

One weir has two versions of a model. Clients ask for streams all the time; in every other
round a rollout copies all requests to the second version, with nothing else. It prints the
time to the first token and the whole time, p50 and p99 of both kinds of rounds, and the ratio
of each round to the one before it. Everything is on loopback; the standard library is enough.
"""
import argparse, http.client, json, os, re, statistics, subprocess, tempfile, threading, time

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home


def call(port, method, path, body=None):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = conn.getresponse()
    text = answer.read()
    conn.close()
    if answer.status != 200:
        raise SystemExit(f"{method} {path}: {answer.status} {text[:300]}")
    return json.loads(text)


def ask(port, number, words):
    """One stream: the times to its first token and to its end."""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began, first = time.perf_counter(), 0.0
    conn.request("POST", "/v1/chat/completions", json.dumps({
        "model": "chat", "messages": [{"role": "user", "content": f"Question {number}: " + "what is weir? " * words}], "max_tokens": 24, "temperature": 0, "stream": True,
    }), {"Content-Type": "application/json"})
    answer = conn.getresponse()
    for line in answer:
        if line.startswith(b"data:") and not first:
            first = time.perf_counter() - began
    conn.close()
    return first, time.perf_counter() - began


def load(port, args, start):
    """Times of all requests of some seconds."""
    end, times, lock = time.monotonic() + args.seconds, [], threading.Lock()

    def client(n):
        while time.monotonic() < end:
            got = ask(port, n, args.words)
            n += args.clients
            with lock:
                times.append(got)
    threads = [threading.Thread(target=client, args=(start + i,)) for i in range(args.clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return times


def quantiles(values):
    values = sorted(values)
    return values[len(values) // 2], values[min(len(values) - 1, int(len(values) * 0.99))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--words", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weir.yml")
        with open(path, "w") as f:
            f.write(json.dumps({"models": [{"name": "chat", "version": "1", "path": args.model}, {"name": "chat", "version": "2", "path": args.model, "load": "never"}]}))
        server = subprocess.Popen([args.weir, "serve", "--config", path, "--port", "0", "--admin-address", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = admin = 0
            for line in server.stdout:
                if m := re.search(r"on http://127\.0\.0\.1:(\d+)", line):
                    port = int(m[1])
                if m := re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line):
                    admin = int(m[1])
                if port and admin:
                    break
            threading.Thread(target=server.stdout.read, daemon=True).start()
            load(port, args, 0)  # warm
            kinds, ratios, copies = {"without": [], "with": []}, [], 0
            for n in range(args.rounds):
                pair = {}
                for kind in ("without", "with") if n % 2 == 0 else ("with", "without"):
                    if kind == "with":
                        call(admin, "POST", "/v1/deployments", {"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "itl_ratio": -1},
                                                                 "steps": [{"shadow": 100, "min_requests": 1000000, "min_time": "1h"}, {"percent": 100, "min_requests": 1, "min_time": "1h"}]})
                    pair[kind] = load(port, args, 1000 * (2 * n + (kind == "with")))
                    if kind == "with":
                        copies += call(admin, "POST", "/v1/deployments/abort", {"model": "chat"})["copies"]
                        time.sleep(1)  # the last copy ends
                    kinds[kind] += pair[kind]
                ratios.append([b / a for i in (0, 1) for a, b in zip(quantiles([t[i] for t in pair["without"]]), quantiles([t[i] for t in pair["with"]]))])
        finally:
            server.terminate()
            server.wait()
    for kind, times in kinds.items():
        first, whole = quantiles([t[0] for t in times]), quantiles([t[1] for t in times])
        print(json.dumps({"rounds": kind, "requests": len(times), "ttft_p50_ms": round(1000 * first[0], 1), "ttft_p99_ms": round(1000 * first[1], 1),
                          "whole_p50_ms": round(1000 * whole[0], 1), "whole_p99_ms": round(1000 * whole[1], 1)}))
    names = ("ttft_p50", "ttft_p99", "whole_p50", "whole_p99")
    print(json.dumps({"copies": copies, "median_ratio": {k: round(statistics.median(r[i] for r in ratios), 3) for i, k in enumerate(names)}}))


if __name__ == "__main__":
    main()
