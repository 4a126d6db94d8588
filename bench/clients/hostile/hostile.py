#!/usr/bin/env python3
"""Formats and tools that cost much for their size, against a server that also writes for somebody else.

    hostile.py --weir ./weir --model m.gguf

starts a server on loopback, lets one stream run without a pause, and sends the requests of cases.py, each alone. It prints a table: the
bytes of the request, the answer (tokens, or the code of the refusal), its seconds, how far the server's memory rose above what it held before
(its peak, as Linux counts it), and the gaps between the tokens of the neighbour's stream meanwhile: median and longest, in milliseconds,
beside those of the stream alone. Then --crowd of the requests at once. A server that ends, an answer with a status from 500 on but for
a 503, and an answer after --seconds fail the run. Python's standard library is all it needs.
"""
import argparse, http.client, json, re, statistics, subprocess, sys, threading, time, urllib.error, urllib.request

import cases


class Server:
    def __init__(self, args):
        model = [args.model] if args.model else []
        self.process = subprocess.Popen([args.weir, "serve", *model, "--port", "0", "--admin-address", "127.0.0.1:0", *args.flag],
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

    def memory(self, name):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(name + r":\s+(\d+) kB", f.read())[1]) / 1024

    def reset_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as f:
            f.write("5")


class Neighbour(threading.Thread):
    """A client that streams one completion after the other and notes when its tokens come."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.times, self.faults = url, [], []
        self.start()

    def run(self):
        body = json.dumps({"prompt": "One two three four", "max_tokens": 400, "stream": True, "ignore_eos": True}).encode()
        while True:
            try:
                request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request) as answer:
                    for line in answer:
                        if b'"error"' in line:
                            self.faults.append(line)
                        if b'"text":' in line:
                            self.times.append(time.monotonic())
            except OSError as e:
                self.faults.append(e)
                return

    def gaps(self, begin, end):
        """Median and longest gap in milliseconds of a span of time, the one at its end included."""
        times = [t for t in list(self.times) if begin <= t <= end]
        gaps = [1000 * (b - a) for a, b in zip([begin, *times], [*times, end])]
        return statistics.median(gaps), max(gaps)


def ask(url, body, seconds):
    """The status, and what came: the number of tokens, or the code of the refusal."""
    request = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            got = json.load(answer)
            return 200, f'{got["usage"]["completion_tokens"]} tokens'
    except urllib.error.HTTPError as e:
        error = json.load(e)["error"]
        return e.code, f'{e.code} `{error["code"]}`: {error["message"]}'
    except (OSError, http.client.HTTPException) as e:
        return 0, f"no answer: {e!r}"


class Hostile:
    def __init__(self, args, server):
        self.args, self.server, self.neighbour, self.failed = args, server, Neighbour(server.url), []

    def judge(self, name, status, took):
        if status < 200 or status >= 500 and status != 503 or took > self.args.seconds:
            self.failed.append(name)

    def measured(self, work):
        """The time that work took, the rise of memory and the neighbour's gaps meanwhile."""
        self.server.reset_peak()
        before, begin = self.server.memory("VmRSS"), time.monotonic()
        result = work()
        end = time.monotonic()
        took, rise = end - begin, self.server.memory("VmHWM") - before
        time.sleep(max(0, 0.5 - took))  # a quick refusal says little of a stream
        return result, took, rise, self.neighbour.gaps(begin, time.monotonic())

    def one(self, name, fields):
        body = cases.body(fields, self.args.tokens, 7)
        (status, text), took, rise, gaps = self.measured(lambda: ask(self.server.url, body, self.args.seconds))
        self.judge(name, status, took)
        print(f"| {name} | {len(body)} | {text[:self.args.width]} | {took:.2f} | {rise:.0f} | {gaps[0]:.1f}, {gaps[1]:.0f} |", flush=True)

    def crowd(self):
        """Some of the requests at once, in turns."""
        names, results, begin = list(cases.CASES), [], time.monotonic()

        def client(i):
            name = names[i * 7 % len(names)]
            start = time.monotonic()
            status, text = ask(self.server.url, cases.body(cases.CASES[name], self.args.tokens, i), 120)
            results.append((name, status, text, time.monotonic() - start))

        def all_of_them():
            threads = [threading.Thread(target=client, args=(i,)) for i in range(self.args.crowd)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()

        _, took, rise, gaps = self.measured(all_of_them)
        for name, status, text, _ in results:
            if status < 200 or status >= 500 and status != 503:
                self.failed.append(f"{name}, beside others: {text}")
        answered = sum(r[1] == 200 for r in results)
        slowest = max(r[3] for r in results)
        print(f"\n{self.args.crowd} at once: {answered} answered, {len(results) - answered} refused, {took:.1f} s for all, the slowest {slowest:.1f} s; "
              f"memory +{rise:.0f} MiB; gaps of the neighbour {gaps[0]:.1f}, {gaps[1]:.0f} ms")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weir", required=True)
    p.add_argument("--model", help="GGUF file; without one the embedded model")
    p.add_argument("--tokens", type=int, default=32, help="that each answer may have")
    p.add_argument("--seconds", type=float, default=10, help="after which an answer is too late")
    p.add_argument("--crowd", type=int, default=64, help="requests at once, at the end")
    p.add_argument("--only", default="", help="an expression for the names of the cases")
    p.add_argument("--width", type=int, default=60, help="characters of an answer in the table")
    p.add_argument("--flag", action="append", default=[], help="for weir serve; repeat")
    args = p.parse_args()
    server = Server(args)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(server.url + "/ready")
                break
            except OSError:
                time.sleep(0.1)
        h = Hostile(args, server)
        time.sleep(3)
        alone = h.neighbour.gaps(time.monotonic() - 2, time.monotonic())
        print(f"the neighbour alone: {alone[0]:.1f}, {alone[1]:.0f} ms; the server holds {server.memory('VmRSS'):.0f} MiB\n")
        print("| request | bytes | answer | seconds | memory, MiB | gaps, ms |\n|---|---|---|---|---|---|")
        for name, fields in cases.CASES.items():
            if re.search(args.only, name):
                h.one(name, fields)
        if args.crowd:
            h.crowd()
        h.failed += [f"the neighbour: {f!r}" for f in h.neighbour.faults]
        print(f"the server holds {server.memory('VmRSS'):.0f} MiB" if server.process.poll() is None else "the server has ended")
    finally:
        server.stop()
    for name in h.failed:
        print("FAILED", name, file=sys.stderr)
    sys.exit(bool(h.failed))


if __name__ == "__main__":
    main()
