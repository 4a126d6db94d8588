#!/usr/bin/env python3
"""Faults on a running load: three weirs behind weir route, one of them failing again and again.

    faults.py --weir ./weir [--model m.gguf] [--faults 50] [--clients 4] [--kinds kill,rst] [--resume]

Of one replica's process: kill (-9, restarted), restart (SIGTERM, restarted with a cold cache), all-but-one (kill -9 of the two others, too).
By a proxy before it: rst of its connections, refuse (new ones, too), stall (for longer than the router waits), slow (each piece comes late),
500, json (an answer, or a stream's first event, that is none), cut (streams and answers end in the middle).
Of the router, restarted on its port: router-stop (SIGTERM), router-kill (-9).

Clients ask chats and completions, as streams and as whole answers, at temperature 0; the right texts are asked of all replicas before. An answer
is right, or it says that it failed after a part of the right text (a status, an error event), or it counts as
  silent_losses  an end without [DONE], a text that is cut, a piece that is no JSON, or another text
  duplicates     text that stands twice
Of a router that is not there the client's own connection tells: it is refused (unreachable), or breaks in the middle of an answer's chunks
(broken_connections), which no client takes for an end. moved are right answers that more than one replica was asked for.

The next fault waits until the replicas that failed have answered again. last_error_s is how long after a fault the last client was told of one (0: none),
back_s how long after its end the replica (or the router) gave its first answer. One JSON object for each kind of fault is printed;
losses and duplicates make the exit status 1. All is on loopback, and Python's standard library is all it needs.
"""
import argparse, collections, contextlib, http.client, json, os, random, re, signal, socket, struct, subprocess, sys, tempfile, threading, time

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

KINDS = ["kill", "restart", "all-but-one", "rst", "refuse", "stall", "slow", "500", "json", "cut", "router-stop", "router-kill"]
COUNTS = ["right", "moved", "errors_told", "timeouts", "unreachable", "broken_connections", "silent_losses", "duplicates"]
BACK_WITHIN = 30  # seconds, that a replica has to answer again


def questions(count, ignore_eos):
    """Requests with answers of different lengths: half of them chats."""
    for i in range(count):
        text = f"Tell me about the number {i} and the word {'water stone river light'.split()[i % 4]}."
        rest = {"max_tokens": 24 + 37 * i % 200, "temperature": 0, "ignore_eos": ignore_eos}
        if i % 2:
            yield "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **rest}
        else:
            yield "/v1/completions", {"prompt": text, **rest}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Weir:
    """A weir process on a port of its own."""

    def __init__(self, args, *flags):
        self.args, self.flags, self.port = args, flags, free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.args.weir, *self.flags, "--port", str(self.port), "--admin-address", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, stderr=self.args.log, text=True)
        for line in self.process.stdout:
            if re.search(r"on http://", line):
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        raise SystemExit("weir did not start: " + " ".join(self.flags))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Proxy:
    """Passes connections to a port, and fails as it is told."""

    def __init__(self, to):
        self.to, self.fault, self.open, self.lock = to, None, set(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            conn, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def reset(self, conn):
        with contextlib.suppress(OSError):
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.shutdown(socket.SHUT_RD)  # wakes who reads it, which would keep it open
            conn.close()

    def fail(self, fault):
        self.fault = fault
        if fault in ("rst", "refuse"):
            with self.lock:
                victims = list(self.open)
            for conn in victims:
                self.reset(conn)

    def serve(self, conn):
        if self.fault == "refuse":
            return self.reset(conn)
        try:
            up = socket.create_connection(("127.0.0.1", self.to), 5)
        except OSError:
            return self.reset(conn)
        with self.lock:
            self.open.add(conn)
        threading.Thread(target=self.pump, args=(conn, up, self.ask), daemon=True).start()
        self.pump(up, conn, self.answer())
        with self.lock:
            self.open.discard(conn)

    def pump(self, a, b, judge):
        """Passes pieces on, as long as judge says so of each."""
        with contextlib.suppress(OSError):
            while piece := a.recv(65536):
                while self.fault == "stall":
                    time.sleep(0.02)
                if not judge(piece, a, b):
                    break
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def ask(self, piece, client, up):
        """Probes pass: the replica seems well, and fails its requests."""
        if self.fault not in ("500", "json") or not piece.startswith(b"POST"):
            up.sendall(piece)
            return True
        status, kind, body = b"500 Internal Server Error", b"application/json", b'{"error": {"message": "no"}}'
        if self.fault == "json":
            stream = b'"stream":true' in piece.replace(b" ", b"")
            status, kind = b"200 OK", b"text/event-stream" if stream else b"application/json"
            body = b'data: {"choices": [{"te\n\n' if stream else b'{"choices": [{"text": "torn'
        client.sendall(b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, kind, len(body), body))
        return False

    def answer(self):
        left = None  # bytes of an answer that still pass before it is cut

        def judge(piece, up, client):
            nonlocal left
            if self.fault == "slow":
                time.sleep(0.03)
            if self.fault != "cut" or piece.startswith(b"HTTP/1.1") and len(piece) < 400:
                left = None
            elif left is None:
                left = random.randint(1, 4000)
            if left is not None:
                piece = piece[:left]
                left -= len(piece)
            client.sendall(piece)
            return left != 0
        return judge


def lines(answer):
    """The lines of an answer. http.client's own takes a broken body for its end; read1 does not."""
    rest = b""
    while piece := answer.read1(65536):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest


Answer = collections.namedtuple("Answer", "text whole error replica attempts")


def ask(port, path, question, stream=False, resume=False):
    """What the answer was: its text, whether it came to its end, what it said went wrong, who gave it."""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    text, whole, error, replica, attempts = "", False, "", "", 1
    try:
        head = {"Content-Type": "application/json", **({"X-Weir-Resume": "1"} if resume else {})}
        conn.request("POST", path, json.dumps({"model": "m", **question, "stream": stream}), head)
        answer = conn.getresponse()
        replica, attempts = answer.headers.get("X-Weir-Replica", ""), int(answer.headers.get("X-Weir-Attempts", 1))
        if answer.status != 200:
            error = f"status {answer.status}"
        elif not stream:
            choice = json.loads(answer.read())["choices"][0]
            text, whole = choice["text"] if "text" in choice else choice["message"]["content"], True
        else:
            for line in lines(answer):
                if line.strip() == b"data: [DONE]":
                    whole = True
                elif line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    error = event["error"]["code"] if "error" in event else error
                    for choice in event.get("choices", []):
                        text += (choice.get("text") or choice.get("delta", {}).get("content")) or ""
    except (OSError, http.client.HTTPException, ValueError) as e:
        error = error if whole else f"lost: {e!r}"  # what breaks after [DONE] is of no interest
    finally:
        conn.close()
    return Answer(text, whole, error, replica, attempts)


class Load:
    """Clients that ask all the time."""

    def __init__(self, args, port, right, of_router):
        self.args, self.port, self.right, self.of_router = args, port, right, of_router
        self.counts, self.errors, self.lock, self.over = collections.Counter(), collections.Counter(), threading.Lock(), False
        self.last_error, self.seen = 0.0, {}  # by replica: when its last right answer came
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(args.clients)]
        for t in self.threads:
            t.start()

    def client(self, number):
        draw = random.Random(number)
        while not self.over:
            path, question, want = draw.choice(self.right)
            began = time.monotonic()
            a = ask(self.port, path, question, draw.random() < 0.6, self.args.resume)
            kind = self.judge(a, want)
            with self.lock:
                self.counts[kind] += 1
                if kind == "right":
                    self.counts["moved"] += a.attempts > 1
                    self.seen[a.replica] = max(self.seen.get(a.replica, 0), began)
                else:
                    self.errors[(a.error or f"{a.text[-30:]!r} for {want[-30:]!r}")[:90]] += 1
                    self.last_error = time.monotonic()
            time.sleep(0.02 if kind == "unreachable" else self.args.rest)

    def judge(self, a, want):
        if "TimeoutError" in a.error:
            return "timeouts"  # of the client, after 60 s
        if self.of_router and "ConnectionRefused" in a.error:
            return "unreachable"
        if len(a.text) > len(want) or len(want) > 40 and a.text.count(want[:40]) > want.count(want[:40]):
            return "duplicates"
        if not want.startswith(a.text):
            return "silent_losses"
        if self.of_router and a.error.startswith("lost") and not a.whole:
            return "broken_connections"
        if a.error:
            return "silent_losses" if a.error.startswith("lost") else "errors_told"
        return "right" if a.whole and a.text == want else "silent_losses"

    def answered(self, names, since):
        """When all of these replicas (none: anybody) have answered requests that began after a time."""
        end = time.monotonic() + BACK_WITHIN
        while time.monotonic() < end:
            with self.lock:
                times = [self.seen.get(n, 0) for n in names] or [max(self.seen.values(), default=0)]
            if min(times) > since:
                return time.monotonic()
            time.sleep(0.005)
        return None

    def stop(self):
        self.over = True
        for t in self.threads:
            t.join()


def rounds(args, router, right, names, fail, heal, lasts, of_router):
    load = Load(args, router.port, right, of_router)
    errors, backs, away = [], [], 0
    try:
        if load.answered(names, time.monotonic()) is None:
            raise SystemExit(f"{names} answer nothing before any fault")
        for _ in range(args.faults):
            time.sleep(random.uniform(0.1, 0.3))
            began = time.monotonic()
            fail()
            time.sleep(random.uniform(*lasts))
            heal()
            healed = time.monotonic()
            back = load.answered(names, healed)
            errors.append(max(load.last_error - began, 0))
            backs += [back - healed] if back else []
            away += back is None
    finally:
        load.stop()

    def quantiles(times):
        times = sorted(times)
        return {"p50": round(times[len(times) // 2], 3), "max": round(times[-1], 3)} if times else {}
    return {**{k: load.counts[k] for k in COUNTS}, "errors": dict(load.errors), "last_error_s": quantiles(errors), "back_s": quantiles(backs), "not_back": away}


def run(args, kind, replicas, right):
    """One kind of fault, with a router of its own. What of the replica's process fails is at replicas[0]."""
    proxy = None if kind in ("kill", "restart", "all-but-one") or kind.startswith("router-") else Proxy(replicas[0].port)
    ports = [proxy.port if proxy else replicas[0].port, replicas[1].port, replicas[2].port]
    routing = {"probe_interval": "500ms", "breaker_pause": "1s", "answer_timeout": "3s", "stall_timeout": "1s"}
    with tempfile.NamedTemporaryFile("w", suffix=".yml", delete=False) as f:
        f.write(json.dumps({"models": [{"name": "m", "policy": args.policy, "routing": routing, "replicas": [{"url": f"http://127.0.0.1:{p}/v1"} for p in ports]}]}))
    router = Weir(args, "route", "--config", f.name)

    def each(do, *list):
        with contextlib.ExitStack() as all:
            for w in list:
                thread = threading.Thread(target=getattr(w, do))
                thread.start()
                all.callback(thread.join)
    names, lasts, one, two = [f"127.0.0.1:{ports[0]}"], (0.1, 0.4), replicas[0], replicas[:2]
    fail, heal = {
        "kill": (one.kill, one.start), "restart": (one.stop, one.start), "all-but-one": (lambda: each("kill", *two), lambda: each("start", *two)),
        "router-stop": (router.stop, router.start), "router-kill": (router.kill, router.start),
    }.get(kind) or (lambda: proxy.fail(kind), lambda: proxy.fail(None))
    if kind == "all-but-one":
        names.append(f"127.0.0.1:{ports[1]}")
    if kind.startswith("router-"):
        names = []
    if kind in ("stall", "slow"):
        lasts = (1.2, 3.5) if kind == "stall" else (0.5, 1)
    try:
        return rounds(args, router, right, names, fail, heal, lasts, kind.startswith("router-"))
    finally:
        router.stop()
        os.unlink(f.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--model", default="")
    parser.add_argument("--faults", type=int, default=50, help="of each kind")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rest", type=float, default=0.02, help="seconds between an answer and the client's next request")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--policy", default="least_load")
    parser.add_argument("--resume", action="store_true", help="clients ask that broken streams go on elsewhere")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL, help="file for what the weirs log")
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"kinds {unknown}: choose from {','.join(KINDS)}")
    serve = ["serve", *([args.model] if args.model else []), "--served-model-name", "m", "--threads", "1"]
    replicas, failed = [], False
    try:
        replicas += [Weir(args, *serve) for _ in range(3)]
        right = []
        for path, question in questions(args.questions, not args.resume):  # what follows an end that was ignored does not follow from the text
            texts = {ask(r.port, path, question).text for r in replicas}
            assert len(texts) == 1, f"replicas answer differently: {question}: {texts}"
            right += [(path, question, text) for text in texts if text]
        for kind in kinds:
            result = run(args, kind, replicas, right)
            print(json.dumps({"fault": kind, "faults": args.faults, **result}), flush=True)
            failed = failed or result["silent_losses"] or result["duplicates"] or result["not_back"]
    finally:
        for w in replicas:
            if w.process.poll() is None:
                w.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
