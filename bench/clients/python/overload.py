"""The official Python client against a server that has one slot and a waiting queue of one request."""

import http.client
import multiprocessing
import statistics
import threading
import time

import openai

from case import ASK, BASE, KEY, MODEL, expect, run

WORK = {"max_tokens": 150, "extra_body": {"ignore_eos": True}}


class Watched:
    """A client whose attempts are noted: when each began, its status and what it was told."""

    def __init__(self, **options):
        self.attempts = []
        self.client = openai.OpenAI(base_url=BASE, api_key=KEY, http_client=openai.DefaultHttpx2Client(
            event_hooks={"request": [self.began], "response": [self.ended]}, timeout=60), **options)

    def began(self, request):
        self.attempts.append({"at": time.monotonic(), "count": request.headers.get("x-stainless-retry-count")})

    def ended(self, response):
        self.attempts[-1].update(status=response.status_code, over=time.monotonic(), retry=response.headers.get("x-should-retry"),
                                 ms=response.headers.get("retry-after-ms"), reason=response.headers.get("x-weir-reason"))

    def ask(self, **parameters):
        return self.client.chat.completions.create(model=MODEL, messages=ASK, **parameters)


def crowd():
    """Twelve at once: who is refused comes back when told, and is counted."""
    clients = [Watched(max_retries=8) for _ in range(12)]
    failed = []

    def ask(c):
        try:
            c.ask(**WORK)
        except openai.APIStatusError as e:
            failed.append(e.status_code)

    threads = [threading.Thread(target=ask, args=(c,)) for c in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    refusals = retries = 0
    ratios, asked = [], []
    for c in clients:
        for i, a in enumerate(c.attempts):
            expect("the attempts are counted", a["count"] == str(i))
            if a["status"] == 200:
                continue
            refusals += 1
            expect("a reason and a wait", a["status"] in (429, 503) and a["reason"] and int(a["ms"]) > 0)
            if i + 1 < len(c.attempts):
                retries += 1
                waited = (c.attempts[i + 1]["at"] - a["over"]) * 1000
                expect(f"a retry only where it is asked for: {a}", a["retry"] == "true")
                expect(f"waited {waited:.0f} ms of {a['ms']}", waited >= int(a["ms"]) - 1)
                ratios.append(waited / int(a["ms"]))
                asked.append(int(a["ms"]))
    expect("some were refused", refusals > 0 and retries > 0)
    return (f"{len(clients) - len(failed)} of {len(clients)} answered, {refusals} refusals, {retries} retries, "
            f"asked to wait {statistics.median(asked):.0f} ms and waited {statistics.median(ratios):.2f} x that (medians)")


def deadline():
    """A deadline that passes is not tried again."""
    c = Watched(max_retries=5)
    try:
        c.ask(**{**WORK, "max_tokens": 4000, "extra_body": {"ignore_eos": True, "deadline_ms": 30}})
    except openai.APIStatusError as e:
        expect(f"a deadline's error, not {e.status_code} {e.code}", e.code in ("deadline_exceeded", "deadline_unreachable"))
        expect(f"one attempt, not {len(c.attempts)}", len(c.attempts) == 1)
        return e.code
    raise AssertionError("no error")


def load():
    """Asks for long answers without an end, refused or not."""
    client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
    while True:
        try:
            client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=1000, extra_body={"ignore_eos": True})
        except openai.APIStatusError:
            time.sleep(0.02)


def speed():
    """How long a refusal takes while the server computes and its queue is full. The load comes from other processes."""
    crowd = [multiprocessing.get_context("fork").Process(target=load) for _ in range(6)]
    for p in crowd:
        p.start()
    time.sleep(1)
    conn, took, answered = http.client.HTTPConnection(BASE.removeprefix("http://").removesuffix("/v1")), [], 0
    body = '{"messages":[{"role":"user","content":"Hello"}],"max_tokens":1}'
    while len(took) < 500 and answered < 100:
        began = time.perf_counter()
        conn.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        r = conn.getresponse()
        r.read()
        if r.status in (429, 503):
            took.append((time.perf_counter() - began) * 1000)
        else:
            answered += 1
        time.sleep(0.005)
    for p in crowd:
        p.terminate()
        p.join()
    expect("some were refused", len(took) >= 100)
    took.sort()
    return f"{len(took)} refusals: p50 {took[len(took) // 2]:.2f} ms, p99 {took[len(took) * 99 // 100]:.2f} ms"


run("openai", {"crowd": crowd, "deadline": deadline, "speed of a refusal": speed})
