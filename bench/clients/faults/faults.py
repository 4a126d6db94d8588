#!/usr/bin/env python3
"""Faults on a running load: three weirs behind weir route, one of them failing again and again.

    faults.py --weir ./weir [--model m.gguf] [--faults 50] [--clients 6] [--resume]

Faults are kill -9 of a replica (it is started anew), and, by a proxy in front of one: RST of
its connections, a stall, answers of 500, streams that are cut, refused connections; and of the
router itself, which is started anew on its port: router-stop (SIGTERM) and router-kill. Clients
ask for streams and for whole answers at temperature 0, whose right text is asked of a replica
before: an answer is right, or it says that it failed (a status, an error event), or it is a
silent loss (an end without [DONE], or another text), or a duplicate (text that stands twice).
Of a router that is not there the client's own connection tells: it is refused (unreachable), or
breaks in the middle of an answer's chunks (broken_connections), which no client takes for an end.
It prints one JSON object for each kind of fault, and exits with 1 for losses or duplicates.
Everything is on loopback. Python's standard library is all it needs.
"""
import argparse, collections, http.client, json, os, random, re, signal, socket, struct, subprocess, sys, tempfile, threading, time

QUESTION = {"prompt": "Once upon a time", "max_tokens": 48, "temperature": 0, "ignore_eos": True}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Weir:
    """A weir process on a port of its own."""

    def __init__(self, args, *flags, port=0):
        self.args, self.flags, self.port = args, flags, port or free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.args.weir, *self.flags, "--port", str(self.port), "--admin-address", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
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
        try:
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.shutdown(socket.SHUT_RD)  # wakes who reads it, which would keep it open
            conn.close()
        except OSError:
            pass

    def fail(self, fault):
        self.fault = fault
        if fault in ("rst", "refuse", "cut"):
            with self.lock:
                victims = list(self.open)
            for conn in victims:
                if fault == "cut":
                    try:
                        conn.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
                else:
                    self.reset(conn)

    def serve(self, conn):
        if self.fault in ("rst", "refuse"):
            return self.reset(conn)
        try:
            up = socket.create_connection(("127.0.0.1", self.to), 5)
        except OSError:
            return self.reset(conn)
        with self.lock:
            self.open.add(conn)
        threading.Thread(target=self.pump, args=(conn, up), daemon=True).start()
        self.pump(up, conn, answers=True)
        with self.lock:
            self.open.discard(conn)

    def pump(self, a, b, answers=False):
        try:
            while piece := a.recv(4096):
                while self.fault == "stall":
                    time.sleep(0.02)
                if answers and self.fault == "500":
                    b.sendall(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
                    break
                b.sendall(piece)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def lines(answer):
    """The lines of an answer. http.client's own takes a broken body for its end; read1 does not."""
    rest = b""
    while piece := answer.read1(65536):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest


def ask(port, stream, resume=False):
    """Returns what the answer was: its text, whether it came to its end, and what it said went wrong."""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    text, whole, error = "", False, ""
    try:
        head = {"Content-Type": "application/json"}
        if resume:
            head["X-Weir-Resume"] = "1"
        conn.request("POST", "/v1/completions", json.dumps({**QUESTION, "stream": stream}), head)
        answer = conn.getresponse()
        if answer.status != 200:
            return text, whole, f"status {answer.status}"
        if not stream:
            return json.loads(answer.read())["choices"][0]["text"], True, error
        for line in lines(answer):
            line = line.strip()
            if line == b"data: [DONE]":
                whole = True
            elif line.startswith(b"data:"):
                try:
                    event = json.loads(line[5:])
                except ValueError:
                    continue  # the piece that was there when the replica died; an error follows
                if "error" in event:
                    error = event["error"]["code"]
                for choice in event.get("choices", []):
                    text += choice.get("text") or ""
    except (OSError, http.client.HTTPException, ValueError) as e:
        return text, False, "" if not text and whole else f"lost: {e!r}"
    finally:
        conn.close()
    return text, whole, error


class Load:
    """Clients that ask all the time."""

    def __init__(self, args, port, want, router):
        self.args, self.port, self.want, self.router = args, port, want, router
        self.counts, self.errors, self.lock, self.over = collections.Counter(), collections.Counter(), threading.Lock(), False
        self.last_bad = 0.0
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(args.clients)]
        for t in self.threads:
            t.start()

    def client(self, number):
        turn = number
        while not self.over:
            turn += 1
            text, whole, error = ask(self.port, turn % 3 != 0, self.args.resume)
            if "TimeoutError" in error:
                kind = "timeouts"  # of the client, after 60 s
            elif self.router and "ConnectionRefused" in error:
                kind = "unreachable"
                time.sleep(0.02)
            elif self.router and error.startswith("lost") and not whole:
                kind = "broken_connections"
            elif error.startswith("lost"):
                kind = "silent_losses"
            elif error:
                kind = "errors_told"
            elif whole and text == self.want:
                kind = "right"
            elif len(text) > len(self.want) or text.count(self.want[:20]) > 1:
                kind = "duplicates"
            else:
                kind = "silent_losses"
            with self.lock:
                self.counts[kind] += 1
                if error:
                    self.errors[error[:60]] += 1
                if kind != "right":
                    self.last_bad = time.monotonic()

    def stop(self):
        self.over = True
        for t in self.threads:
            t.join()


def rounds(args, router, want, fail, heal, of_router=False):
    load = Load(args, router.port, want, of_router)
    recoveries = []
    time.sleep(1)
    for _ in range(args.faults):
        began = time.monotonic()
        fail()
        time.sleep(random.uniform(0.1, 0.4))
        heal()
        time.sleep(random.uniform(0.3, 0.6))
        recoveries.append(max(load.last_bad - began, 0))
    load.stop()
    recoveries.sort()
    return {**{k: load.counts[k] for k in ("right", "errors_told", "timeouts", "unreachable", "broken_connections", "silent_losses", "duplicates")}, "errors": dict(load.errors),
            "recovery_s": {"p50": round(recoveries[len(recoveries) // 2], 3), "max": round(recoveries[-1], 3)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--model", default="")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--resume", action="store_true", help="clients ask that broken streams go on elsewhere")
    parser.add_argument("--kinds", default="kill,rst,stall,500,cut,refuse,router-stop,router-kill")
    args = parser.parse_args()
    serve = ["serve", *([args.model] if args.model else []), "--served-model-name", "m", "--threads", "1"]
    replicas = [Weir(args, *serve) for _ in range(3)]
    started, failed = list(replicas), False
    try:
        want, whole, _ = ask(replicas[0].port, False)
        assert whole and want
        for kind in args.kinds.split(","):
            proxy = Proxy(replicas[0].port)
            ports = [replicas[0].port if kind == "kill" else proxy.port, replicas[1].port, replicas[2].port]
            with tempfile.NamedTemporaryFile("w", suffix=".yml", delete=False) as f:
                f.write(json.dumps({"models": [{"name": "m", "policy": "least_load", "replicas": [{"url": f"http://127.0.0.1:{p}/v1"} for p in ports]}]}))
            router = Weir(args, "route", "--config", f.name)
            started.append(router)
            try:
                if kind.startswith("router-"):
                    result = rounds(args, router, want, router.kill if kind == "router-kill" else router.stop, router.start, True)
                elif kind == "kill":
                    result = rounds(args, router, want, replicas[0].kill, replicas[0].start)
                else:
                    result = rounds(args, router, want, lambda: proxy.fail(kind), lambda: proxy.fail(None))
            finally:
                router.stop()
                os.unlink(f.name)
            print(json.dumps({"fault": kind, "faults": args.faults, **result}), flush=True)
            failed = failed or result["silent_losses"] or result["duplicates"]
    finally:
        for w in started:
            if w.process.poll() is None:
                w.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
