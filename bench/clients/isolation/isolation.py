#!/usr/bin/env python3
"""Predictions beside a language model on the same cores: does either starve?

    isolation.py --weir ./weir --model m.gguf --classic trees.ubj

starts a server on loopback and measures, in this order: predictions as many as the server
can do; predictions at half of that, alone; the language model alone, saturated by
--clients streams; both at once; and the reverse, few streams beside predictions without
a bound. It prints one JSON object: 50th and 99th percentiles of predictions and of the
gaps between tokens in milliseconds, and each beside its own solo figure. The clients
share the server's cores, so ratios count, not milliseconds. Python's standard library is
all it needs; the load comes from weir bench predict and weir bench serve.
"""
import argparse, json, os, re, subprocess, tempfile, threading, time, urllib.request

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home


class Server:
    def __init__(self, args):
        self.process = subprocess.Popen(
            [args.weir, "serve", args.model, "--classic", args.classic, "--port", "0", "--admin-address", "127.0.0.1:0", *args.flag],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        text = ""
        for line in self.process.stdout:
            text += line
            if found := re.search(r"on (http://[\d.]+:\d+)", text):
                self.url = found[1]
                return
        raise SystemExit("weir did not start:\n" + text)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def predict(args, url, seconds, rate=0):
    out = subprocess.run(
        [args.weir, "bench", "predict", url, "--protocols", "binary", "--duration", f"{seconds}s", "--connections", str(args.connections),
         "--rate", str(rate)], capture_output=True, text=True, check=True).stdout
    row = out.strip().splitlines()[-1].split()
    return {"per_second": float(row[-5]), "p50_ms": float(row[-4]), "p99_ms": float(row[-3]), "errors": int(row[-1])}


def stream(args, url, seconds, clients, over=threading.Event()):
    """Streams of 64 tokens until the time or what they run beside is over; the gaps between their tokens."""
    gaps, lock, begin, tokens = [], threading.Lock(), time.monotonic(), [0]
    end = begin + seconds
    words = "river stone cloud lamp copper north winter paper".split()

    def client(number):
        turn = 0
        while time.monotonic() < end and not over.is_set():
            turn += 1
            prompt = " ".join(words[(number * 7 + turn * 3 + i) % 8] for i in range(32))
            body = json.dumps({"prompt": prompt, "max_tokens": 64, "stream": True, "ignore_eos": True}).encode()
            request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
            last, own = None, []
            with urllib.request.urlopen(request) as answer:
                for line in answer:
                    if line.startswith(b'data: {"') and b'"text":' in line:
                        now = time.monotonic()
                        if last is not None and now < end:
                            own.append(1000 * (now - last))
                        last = now
                    if time.monotonic() > end or over.is_set():
                        break
            with lock:
                gaps.extend(own)
                tokens[0] += len(own)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = min(time.monotonic(), end) - begin
    gaps.sort()
    at = lambda p: round(gaps[min(len(gaps) - 1, int(p * len(gaps)))], 2) if gaps else None
    return {"tokens_per_second": round(tokens[0] / seconds, 1), "p50_ms": at(0.5), "p99_ms": at(0.99), "longest_ms": at(1)}


def both(predictions, streams):
    """Streams as long as there are predictions: whichever is slower, the other is beside it all the time."""
    over, results = threading.Event(), [None]
    beside = threading.Thread(target=lambda: results.append(streams(over)))
    beside.start()
    try:
        results[0] = predictions()
    finally:
        over.set()
        beside.join()
    return results


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weir", required=True)
    p.add_argument("--model", required=True, help="GGUF file")
    p.add_argument("--classic", required=True, help="tree or ONNX model")
    p.add_argument("--clients", type=int, default=16, help="streams that saturate the language model")
    p.add_argument("--connections", type=int, default=32, help="of predictions: too few, and a rate waits for them in the client")
    p.add_argument("--seconds", type=int, default=8, help="of each phase")
    p.add_argument("--flag", action="append", default=[], help="for weir serve; repeat")
    args = p.parse_args()
    server, s = Server(args), args.seconds
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(server.url + "/ready")
                break
            except OSError:
                time.sleep(0.1)
        stream(args, server.url, 1, 2)
        r = {"predict_limit": predict(args, server.url, s)}
        half = round(r["predict_limit"]["per_second"] / 2)
        r["predict_half_solo"] = predict(args, server.url, s, half)
        r["stream_solo"] = stream(args, server.url, s, args.clients)
        r["predict_half_beside"], r["stream_beside"] = both(
            lambda: predict(args, server.url, s, half), lambda over: stream(args, server.url, 20 * s, args.clients, over))
        r["few_streams_solo"] = stream(args, server.url, s, 2)
        r["predict_limit_beside"], r["few_streams_beside"] = both(
            lambda: predict(args, server.url, s), lambda over: stream(args, server.url, 20 * s, 2, over))
    finally:
        server.stop()
    ratio = lambda a, b, k: round(r[a][k] / r[b][k], 2)
    r["ratios"] = {
        "predict_p99": ratio("predict_half_beside", "predict_half_solo", "p99_ms"),
        "predict_rate_kept": ratio("predict_half_beside", "predict_half_solo", "per_second"),
        "tokens_kept": ratio("stream_beside", "stream_solo", "tokens_per_second"),
        "gap_p99": ratio("stream_beside", "stream_solo", "p99_ms"),
        "few_streams_tokens_kept": ratio("few_streams_beside", "few_streams_solo", "tokens_per_second"),
        "few_streams_gap_p99": ratio("few_streams_beside", "few_streams_solo", "p99_ms"),
        "predict_limit_kept": ratio("predict_limit_beside", "predict_limit", "per_second"),
    }
    print(json.dumps(r, indent=1))


main()
