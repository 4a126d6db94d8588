#!/usr/bin/env python3
"""Puts a weir under pressure of kinds that a good neighbour never makes, and measures what
its neighbours feel.

    pressure.py abuser   --weir ./weir --model m.gguf   seven normal tenants beside three bad ones
    pressure.py stalled  --weir ./weir --model m.gguf   stalled readers and slow headers beside 16 clients
    pressure.py overload --weir ./weir --model m.gguf   three times the load that the server can serve

Each starts servers of its own on loopback, prints a report as JSON, and ends with status 1 where the
report misses an aim. Python's standard library is all it needs. Times are of the machine as it is: run it
where nothing else runs. --seconds shortens the phases, for a try; no aim is checked then.
"""
import argparse, asyncio, bisect, json, math, multiprocessing, os, random, re, resource, socket, statistics, subprocess, sys, tempfile, time, urllib.request

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

WORDS = "river stone cloud lamp copper north winter paper silver orange garden window".split()


def prompt(words, rng):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(p / 100 * len(values)) - 1)] if values else None


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values)) if any(values) else None


class Server:
    """A weir with a store of its own; keys makes tenants."""

    def __init__(self, args, flags=()):
        self.weir, self.folder = args.weir, tempfile.TemporaryDirectory()
        self.store = "sqlite:" + os.path.join(self.folder.name, "weir.db")
        self.operator = self.key("ops", "--scope", "admin")
        self.log = open(os.path.join(self.folder.name, "log"), "w")
        self.process = subprocess.Popen(
            [args.weir, "serve", args.model, "--store", self.store, "--port", "0", "--admin-address", "127.0.0.1:0", *flags, *args.flag],
            stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=lambda: os.nice(5))  # the clients do not share its cores elsewhere
        text = ""
        for line in self.process.stdout:
            text += line
            api = re.search(r"on http://([\d.]+):(\d+)", text)
            second = re.search(r"metrics +(http://[\d.:]+)", text)
            if api and second:
                self.host, self.port, self.second = api[1], int(api[2]), second[1]
                break
        else:
            raise SystemExit("weir did not start:\n" + text + open(self.log.name).read())

    def key(self, tenant, *flags):
        done = subprocess.run([self.weir, "keys", "create", tenant, "--store", self.store, *flags], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def get(self, path):
        q = urllib.request.Request(self.second + path, headers={"Authorization": "Bearer " + self.operator})
        return json.load(urllib.request.urlopen(q))

    def compute(self):
        """Seconds of compute of each tenant's finished requests, half a second ago at most."""
        sums = {}
        for row in self.get("/admin/usage")["rows"]:
            sums[row["tenant"]] = sums.get(row["tenant"], 0) + float(row["compute_seconds"])
        return sums

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) // 1024

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        self.folder.cleanup()


class Answer:
    def __init__(self):
        self.status, self.headers, self.tokens, self.first, self.took, self.begun = 0, {}, 0, None, None, time.monotonic()


async def connect(server, **options):
    return await asyncio.open_connection(server.host, server.port, **options)


def request(server, key, text, max_tokens):
    body = json.dumps({"prompt": text, "max_tokens": max_tokens, "stream": True, "ignore_eos": True, "temperature": 0}).encode()
    return (f"POST /v1/completions HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


async def ask(server, key, text, max_tokens):
    a = Answer()
    writer = None
    try:
        reader, writer = await connect(server)
        a.begun = time.monotonic()
        writer.write(request(server, key, text, max_tokens))
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin1").split("\r\n")
        a.status = int(lines[0].split()[1])
        a.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                if a.first is None and a.status == 200:
                    a.first = time.monotonic() - a.begun
                a.tokens += b'"text"' in line
    except (OSError, asyncio.IncompleteReadError, ValueError):
        pass
    finally:
        if writer:
            writer.close()
    a.took = time.monotonic() - a.begun
    return a


async def closed(server, key, until, words, max_tokens, answers, seed, on=None):
    """One client that asks again as soon as it has its answer; on is (seconds on, seconds off)."""
    rng, start = random.Random(seed), time.monotonic()
    while time.monotonic() < until:
        if on and (time.monotonic() - start) % sum(on) >= on[0]:
            await asyncio.sleep(0.05)
            continue
        answers.append(await ask(server, key, prompt(words, rng), max_tokens))
        if answers[-1].status != 200:
            await asyncio.sleep(0.2)


NORMAL = ["normal%d" % i for i in range(7)]


async def mix(server, keys, seconds, bad):
    """The clients of all tenants for a while: their answers by tenant, and the compute that each had.

    What is answered after the end is left out of both: the server with the most clients has the most to be answered then.
    """
    answers = {name: [] for name in NORMAL + ["abuser", "onoff", "long"]}
    until, tasks = time.monotonic() + seconds, []

    def clients(name, n, words=24, max_tokens=24, on=None):
        for i in range(n):
            tasks.append(closed(server, keys[name], until, words, max_tokens, answers[name], f"{name}{i}", on))

    for name in NORMAL:
        clients(name, 3)
    if bad:
        clients("abuser", 30)
        clients("onoff", 8, on=(5, 5))
        clients("long", 3, words=240)
    async def at_end():
        await asyncio.sleep(until - time.monotonic())
        return await asyncio.to_thread(server.compute)

    before = server.compute()
    after = (await asyncio.gather(at_end(), *tasks))[0]
    in_time = {n: [a for a in list if a.begun + a.took <= until] for n, list in answers.items()}
    return in_time, {n: after.get(n, 0) - before.get(n, 0) for n in answers}


def normal_ttft(answers):
    return [a.first for name in NORMAL for a in answers[name] if a.first is not None]


def abuser(args):
    seconds = args.seconds or 120
    report = {}
    for fair in (True, False):
        server = Server(args, ["--max-num-seqs", "8"])  # fewer slots than any mix has clients: all of them compete
        try:
            one = server.key("everybody")
            keys = {n: server.key(n) if fair else one for n in NORMAL + ["abuser", "onoff", "long"]}
            asyncio.run(mix(server, keys, min(5, seconds), False))  # warm
            alone, _ = asyncio.run(mix(server, keys, seconds, False))
            time.sleep(1)  # the ledger writes twice a second
            mixed, compute = asyncio.run(mix(server, keys, seconds, True))
        finally:
            server.close()
        served = {n: sum(a.tokens for a in mixed[n]) for n in mixed}
        r = {
            "ttft_p50_alone_ms": 1000 * statistics.median(normal_ttft(alone)), "ttft_p99_alone_ms": 1000 * percentile(normal_ttft(alone), 99),
            "ttft_p50_ms": 1000 * statistics.median(normal_ttft(mixed)), "ttft_p99_ms": 1000 * percentile(normal_ttft(mixed), 99),
            "output_tokens": served, "jain_of_normal_and_abuser_tokens": jain([served[n] for n in NORMAL + ["abuser"]]),
        }
        r["ttft_p99_ratio"] = r["ttft_p99_ms"] / r["ttft_p99_alone_ms"]
        if fair:
            r["compute_seconds"] = compute
            # Who is off half of the time asks for half as much: it is not part of the index.
            r["jain_of_compute"] = jain([v for n, v in compute.items() if n != "onoff"])
        report["tenants" if fair else "all_as_one_tenant"] = r
    aims = {"jain_of_compute >= 0.95": report["tenants"]["jain_of_compute"] >= 0.95,
            "ttft_p99_ratio <= 1.5": report["tenants"]["ttft_p99_ratio"] <= 1.5}
    return report, aims


async def good_clients(server, key, seconds):
    answers = []
    until = time.monotonic() + seconds
    await asyncio.gather(*(closed(server, key, until, 24, 24, answers, f"good{i}") for i in range(16)))
    return [a.first for a in answers if a.first is not None], sum(a.status != 200 for a in answers)


async def stall(server, key, n):
    """Connections that ask for a stream and never read it."""
    held = []
    for i in range(n):
        try:
            reader, writer = await connect(server, limit=1024)
            writer.transport.pause_reading()
            writer.write(request(server, key, "one two three", 8))
            held.append((reader, writer))
        except OSError:
            pass
        if i % 50 == 0:
            await asyncio.sleep(0.05)
    return held


async def slow_headers(server, n, until):
    """Connections that send a byte of their header each second; a new one for each that is closed."""
    async def one(i):
        while time.monotonic() < until:
            try:
                _, writer = await connect(server)
                writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                while time.monotonic() < until and not writer.is_closing():
                    await asyncio.sleep(1)
                    writer.write(b"x")
                    await writer.drain()
                writer.close()
            except OSError:
                await asyncio.sleep(1)
    await asyncio.sleep(0)
    await asyncio.gather(*(one(i) for i in range(n)))


async def stalled_turn(server, keys, seconds, bad):
    if not bad:
        return await good_clients(server, keys["good"], seconds)
    held = await stall(server, keys["stalled"], bad[0])
    slow = asyncio.create_task(slow_headers(server, bad[1], time.monotonic() + seconds + 5))
    await asyncio.sleep(4)  # the streams of the stalled readers are generated, and their readers stall
    result = await good_clients(server, keys["good"], seconds)
    for _, writer in held:
        writer.transport.abort()
    await slow
    return result


def stalled(args):
    seconds, turns = args.seconds or 60, 3
    server = Server(args)
    ratios, rows = [], []
    try:
        keys = {"good": server.key("good"), "stalled": server.key("stalled")}
        asyncio.run(good_clients(server, keys["good"], min(5, seconds)))
        for _ in range(turns):
            pair = []
            for bad in (None, (args.stalled, args.slow)):
                ttft, failed = asyncio.run(stalled_turn(server, keys, seconds, bad))
                pair.append(percentile(ttft, 99))
                rows.append({"bad": bool(bad), "answers": len(ttft), "failed": failed, "ttft_p50_ms": 1000 * statistics.median(ttft),
                             "ttft_p99_ms": 1000 * pair[-1], "memory_mib": server.memory()})
            ratios.append(pair[1] / pair[0])
    finally:
        server.close()
    report = {"turns": rows, "ttft_p99_ratio": statistics.median(ratios), "failed": sum(r["failed"] for r in rows)}
    return report, {"ttft_p99_ratio <= 1.2": report["ttft_p99_ratio"] <= 1.2, "failed == 0": report["failed"] == 0}


def waits(answers, alone):
    """What refused requests were told to wait, and how long those waited in truth that were let in nearest to them in time."""
    let_in = sorted((a.begun, a.first - alone) for a in answers if a.status == 200 and a.first is not None)
    begun = [t for t, _ in let_in]
    pairs = []
    for a in answers:
        told = float(a.headers.get("retry-after-ms", "nan")) / 1000
        if a.status not in (429, 503) or math.isnan(told) or not let_in:
            continue
        i = bisect.bisect(begun, a.begun)
        near = min(let_in[max(0, i - 1):i + 1], key=lambda x: abs(x[0] - a.begun))
        pairs.append((told, near[1]))
    return pairs


def watch(host, port, key, seconds, times):
    """Asks twenty times a second from a process of its own, which no other answer keeps busy: how long refusals take."""
    server, end = argparse.Namespace(host=host, port=port), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
        with socket.create_connection((host, port)) as s:
            begun = time.monotonic()
            s.sendall(request(server, key, "once more", 1))
            head = s.recv(1 << 16)
            took = time.monotonic() - begun
        if head.split()[1] in (b"429", b"503"):
            times.put(took)
    times.put(None)


async def flood(server, key, rate, seconds, answers, memory):
    rng, tasks = random.Random(1), set()
    start = due = time.monotonic()
    sampled = start

    async def one():
        answers.append(await ask(server, key, prompt(24, rng), 24))

    while time.monotonic() - start < seconds:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(0, due - time.monotonic()))
        task = asyncio.create_task(one())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if time.monotonic() - sampled > 1:
            sampled = time.monotonic()
            memory.append(server.memory())
    await asyncio.gather(*tasks)


async def capacity(server, key, seconds, clients=64):
    answers, start = [], time.monotonic()
    await asyncio.gather(*(closed(server, key, start + seconds, 24, 24, answers, f"c{i}") for i in range(clients)))
    return sum(a.tokens for a in answers) / (time.monotonic() - start), sum(a.status == 200 for a in answers) / (time.monotonic() - start)


def overload(args):
    seconds = args.seconds or 120
    # A cache that fills within seconds: its memory is taken as it fills, which is no growth.
    server = Server(args, ["--max-num-queued-reqs", "64", "--kv-cache-memory-bytes", str(256 << 20)])
    answers, memory = [], []
    try:
        key = server.key("load")
        asyncio.run(capacity(server, key, min(5, seconds)))
        tokens, requests = asyncio.run(capacity(server, key, min(30, seconds)))
        alone = statistics.median(asyncio.run(ask(server, key, prompt(24, random.Random(i)), 24)).first for i in range(5))
        start = time.monotonic()
        times = multiprocessing.Queue()
        watcher = multiprocessing.Process(target=watch, args=(server.host, server.port, key, seconds, times))
        watcher.start()
        asyncio.run(flood(server, key, 3 * requests, seconds, answers, memory))
        took = time.monotonic() - start
        refused = list(iter(times.get, None))
        watcher.join()
    finally:
        server.close()
    samples = waits(answers, alone)
    off = [abs(told - true) / max(true, 0.25) for told, true in samples]
    goodput = sum(a.tokens for a in answers if a.status == 200) / took
    report = {
        "capacity_tokens_per_s": tokens, "offered_requests_per_s": 3 * requests, "goodput_tokens_per_s": goodput, "goodput_share": goodput / tokens,
        "answered": sum(a.status == 200 for a in answers), "refused": sum(a.status in (429, 503) for a in answers), "failed": sum(a.status not in (200, 429, 503) for a in answers),
        "refusal_p50_ms": 1000 * percentile(refused, 50) if refused else None, "refusal_p99_ms": 1000 * percentile(refused, 99) if refused else None,
        "memory_mib_first_quarter": max(memory[:max(1, len(memory) // 4)], default=None), "memory_mib_last_quarter": max(memory[-max(1, len(memory) // 4):], default=None),
        "retry_after_samples": len(off), "retry_after_p50_ms": 1000 * percentile([p for p, _ in samples], 50) if samples else None,
        "true_wait_p50_ms": 1000 * percentile([t for _, t in samples], 50) if samples else None,
        "retry_after_off_by_p50": percentile(off, 50) if off else None,
        "retry_after_within_30_percent": sum(x <= 0.3 for x in off) / len(off) if off else None,
    }
    aims = {"goodput_share >= 0.9": report["goodput_share"] >= 0.9, "something is refused": bool(refused),
            "refusal_p99_ms < 5": bool(refused) and report["refusal_p99_ms"] < 5,
            "memory does not grow by 5 %": bool(memory) and report["memory_mib_last_quarter"] <= 1.05 * report["memory_mib_first_quarter"],
            "retry_after within 30 %": bool(off) and report["retry_after_off_by_p50"] <= 0.3}
    return report, aims


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["abuser", "stalled", "overload"])
    p.add_argument("--weir", default="weir", help="the binary")
    p.add_argument("--model", required=True, help="a GGUF file")
    p.add_argument("--seconds", type=float, help="length of each phase, for a try")
    p.add_argument("--stalled", type=int, default=1000, help="stalled readers")
    p.add_argument("--slow", type=int, default=2000, help="connections with slow headers")
    p.add_argument("--flag", action="append", default=[], help="a flag for weir serve, such as --flag=--threads=2; may be repeated")
    p.add_argument("--out", help="file for the report")
    args = p.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    report, aims = {"abuser": abuser, "stalled": stalled, "overload": overload}[args.what](args)
    report["aims"] = aims
    text = json.dumps(report, indent=2)
    print(text)
    if args.out:
        with open(args.out, "w") as f:
            f.write(text + "\n")
    if not args.seconds and not all(aims.values()):
        sys.exit(1)


main()
