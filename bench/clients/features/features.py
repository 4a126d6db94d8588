#!/usr/bin/env python3
"""Predictions whose features come from a Redis that is well, slow, silent, dead, or has no values or wrong ones.

    features.py --weir ./weir [--requests 500] [--rate 200] [--timeout 5ms] [--json FILE]

One weir serves the built-in trees with a manifest; one redis-server, started here, has two of its features. Cases follow
one another; each sends requests at a steady rate on a kept connection and prints p50, p99 and longest of their times, the statuses,
what the answers say of their features, and what the metrics counted. "slow" stops the server's process for 20 of every
25 ms, "silent" stops it for good: connections stay and do not answer. Needs redis-server and Python's standard library.
"""
import argparse, collections, http.client, json, os, pathlib, re, signal, socket, subprocess, tempfile, threading, time

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

MANIFEST = """
version: 1
project: bench
timeout: {timeout}
cache: {{entries: 10000, fresh: 1s, stale: 60s}}
entities: [{{name: plant, keys: [{{input: plant_id, type: integer}}]}}]
features:
  - {{name: sepal_length, source: request, type: number, required: true}}
  - {{name: sepal_width, source: request, type: number, default: 3}}
  - {{name: petal_length, source: store, entity: plant, view: petals, type: number, default: 4}}
  - {{name: petal_width, source: store, entity: plant, view: petals, type: number, default: 1.2}}
"""
MODEL = pathlib.Path(__file__).parents[3] / "internal/defaultmodel/iris.json"
KNOWN, WRONG, UNKNOWN = 100_000, 200_000, 300_000  # where the ids of plants begin: with values, with words, with none


class Redis:
    def __init__(self, folder):
        with socket.socket() as s:  # the port is free a moment before
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def put(self, first, count, *values):
        lines = "".join(f"HSET f:{{bench}}:plant:{first + i} {' '.join(values)}\r\n" for i in range(count))
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall((lines + "PING\r\n").encode())
            answer = b""
            while b"+PONG" not in answer:
                answer += s.recv(1 << 16)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Weir:
    def __init__(self, binary, folder, redis, timeout):
        manifest = pathlib.Path(folder, "iris.features.yml")
        manifest.write_text(MANIFEST.format(timeout=timeout))
        config = pathlib.Path(folder, "weir.yml")
        config.write_text(f"predict: {{feature_redis: 'redis://127.0.0.1:{redis.port}/0'}}\n"
                          f"classic:\n  - {{name: iris, path: '{MODEL}', manifest: '{manifest}'}}\n")
        self.process = subprocess.Popen([binary, "serve", "--config", str(config), "--port", "0", "--admin-address", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in self.process.stdout:
            said += line
            ports = re.findall(r"http://127\.0\.0\.1:(\d+)", said)
            if len(set(ports)) >= 2:
                break
        else:
            raise SystemExit("weir did not start:\n" + said)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.port, self.admin = list(dict.fromkeys(map(int, ports)))[:2]

    def counters(self):
        c = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=10)
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        found = collections.Counter()
        for name, labels, value in re.findall(r"^(weir_feature_\w+?)(\{[^}]*\})? (\S+)$", text, re.M):
            outcome = re.search(r'outcome="(\w+)"', labels or "")
            state = re.search(r'state="([\w-]+)"', labels or "")
            if state and value == "1":
                found["breaker"] = state[1]
            elif outcome:
                found["values " + outcome[1]] += float(value)
            elif name.startswith("weir_feature_store_") and name.endswith("_total"):
                found[name[len("weir_feature_store_"):-len("_total")]] += float(value)
        return found

    def end(self):
        self.process.terminate()
        self.process.wait()


def send(weir, ids, rate, header):
    """The requests' times in ms, and how many answers said what."""
    c = http.client.HTTPConnection("127.0.0.1", weir.port, timeout=10)
    times, said, begin = [], collections.Counter(), time.perf_counter()
    for k, plant in enumerate(ids):
        due = begin + k / rate
        if (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        body = json.dumps({"inputs": [{"name": "sepal_length", "datatype": "FP64", "shape": [1], "data": [5.1]},
                                      {"name": "sepal_width", "datatype": "FP64", "shape": [1], "data": [3.5]},
                                      {"name": "plant_id", "datatype": "INT64", "shape": [1], "data": [plant]}]})
        sent = time.perf_counter()
        c.request("POST", "/v2/models/iris/infer", body, {"Content-Type": "application/json", **header})
        answer = c.getresponse()
        data = answer.read()
        times.append(1000 * (time.perf_counter() - sent))
        notes = [f"{k} {answer.headers[k]}" for k in ("x-weir-features-defaulted", "x-weir-features-outdated") if answer.headers[k]]
        what = "; ".join(n.removeprefix("x-weir-features-") for n in notes) or "all from store or memory"
        said[f"{answer.status} {what if answer.status == 200 else json.loads(data).get('error', '')[:80]}"] += 1
    return sorted(times), said


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weir", required=True)
    p.add_argument("--requests", type=int, default=500)
    p.add_argument("--rate", type=float, default=200, help="requests a second")
    p.add_argument("--timeout", default="5ms", help="of the manifest")
    p.add_argument("--json")
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        redis = Redis(folder)
        weir = Weir(a.weir, folder, redis, a.timeout)
        n = a.requests
        seen = iter(range(10**6))
        fresh = lambda first: [first + next(seen) for _ in range(n)]

        def case(name, ids, header=None):
            before = weir.counters()
            times, said = send(weir, ids, a.rate, header or {})
            after = weir.counters()
            counted = {k: int(after[k] - before[k]) for k in after if k != "breaker" and after[k] != before[k]}
            at = lambda q: round(times[min(len(times) - 1, int(q * len(times)))], 2)
            row = {"case": name, "p50_ms": at(0.5), "p99_ms": at(0.99), "longest_ms": at(1), "answers": dict(said.most_common(4)),
                   "counted": counted, "breaker": after["breaker"]}
            rows.append(row)
            print(f"| {name} | {row['p50_ms']} | {row['p99_ms']} | {row['longest_ms']} | "
                  + "; ".join(f"{c} x {w}" for w, c in said.most_common(4)) + f" | {row['breaker']} | "
                  + ", ".join(f"{k} {v}" for k, v in sorted(counted.items())) + " |", flush=True)

        try:
            redis.put(KNOWN, 8 * n, "petal_length", "1.4", "petal_width", "0.2")
            redis.put(WRONG, 8 * n, "petal_length", "long", "petal_width", "0.2")
            print("| case | p50 ms | p99 ms | longest ms | answers | breaker at the end | counted |\n|---|---|---|---|---|---|---|")
            send(weir, [KNOWN - 1] * 50, a.rate, {})
            case("remembered", [KNOWN] * n)
            old = fresh(KNOWN)
            case("read", old)
            case("missing", fresh(UNKNOWN))
            case("wrong type", fresh(WRONG))
            stop = threading.Event()

            def limp():
                while not stop.is_set():
                    redis.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.020)
                    redis.process.send_signal(signal.SIGCONT)
                    time.sleep(0.005)

            limping = threading.Thread(target=limp)
            limping.start()
            case("slow", fresh(KNOWN))
            case("slow, deadline of 6 ms", fresh(KNOWN), {"x-weir-deadline-ms": "6"})
            stop.set()
            limping.join()
            time.sleep(1.5)
            send(weir, fresh(KNOWN)[:200], a.rate, {})  # until the breaker is closed
            redis.process.send_signal(signal.SIGSTOP)
            case("silent", fresh(KNOWN))
            case("silent, remembered 2 s ago and more", old)
            redis.end()
            case("dead", fresh(KNOWN))
        finally:
            weir.end()
            if redis.process.poll() is None:
                redis.end()
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows, indent=1))


main()
