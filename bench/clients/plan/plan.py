#!/usr/bin/env python3
"""What weir plan says that one replica bears, against what it does: the benchmark and the run in turns.

    plan.py --weir ./weir --model m.gguf --latency 2,4,6 [--shapes 128x32] [--requests 100] [--rounds 3] [--threads 1]
    plan.py --weir ./weir --model m.gguf [--shapes 128x32,512x16,32x128,512x128] [--rounds 3] [--clients 8] [--waves 8] [--threads 1]

A shape is tokens of a prompt x tokens of an answer. Each round measures prompts and outputs apart (weir bench batched), saturates a server
with clients that always wait (weir bench serve), measures the benchmark again, since machines change, and has weir plan compute the requests
a second of one replica without headroom, from the mean of both and from the tokens that the requests really had. Requests count from the end
of the clients' first answers until their last requests begin: all clients are served then. One JSON object a round is printed, and the median
of planned / measured for each shape; the status is 1 if one is off by more than 15 %.

With --latency the server gets requests at these rates (a Poisson process) and --itl-target-ms as it comes, and what weir plan says of TTFT and ITL for
the lengths that the requests had is set beside what the clients saw; the status is 1 if the median of planned / measured of a p50 is off by more.
"""
import argparse, json, os, re, statistics, subprocess, sys, tempfile

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def rates(args, prompt, output):
    """Prompt and output tokens a second of a replica that does nothing else."""
    rows = json.loads(run(args.weir, "bench", "batched", args.model, "-t", args.threads, "--npp", prompt, "--ntg", output, "--npl", args.clients, "-o", "json"))["rows"]
    return [next(r["value"] for r in rows if r["name"].endswith(name)) for name in (" S_PP", " S_TG")]


def planned(args, prefill, decode, prompt, output):
    """Requests a second of one replica, by the plan."""
    text = run(args.weir, "plan", "--prefill", prefill, "--decode", decode, "--sequences", args.clients, "--rate", 100, "--prompt", prompt, "--output-tokens", output, "--headroom", 0)
    return 100 / float(re.search(r"by compute [^\n]*= ([\d.]+) replicas", text)[1])


def serving(args, *flags):
    """A server and its address."""
    server = subprocess.Popen([args.weir, "serve", args.model, "-t", str(args.threads), "--port", "0", "--admin-address", "off", *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in server.stdout:
        if m := re.search(r"http://127\.0\.0\.1:\d+", line):
            return server, m[0]
    raise SystemExit("the server did not start")


QUANTILES = [("ttft", "p50"), ("ttft", "p99"), ("itl", "p50"), ("itl", "p99")]


def latency(args, folder, prompt, output, rate, seed):
    """TTFT and ITL in ms at a rate: what the plan says, and what clients saw."""
    path, batched = os.path.join(folder, "serve.json"), [os.path.join(folder, f"batched{i}.json") for i in range(2)]

    def benchmark(into):
        with open(into, "w") as f:
            f.write(run(args.weir, "bench", "batched", args.model, "-t", args.threads, "--npp", f"16,{prompt},256", "--ntg", 12, "--npl", "1,2,4,8",
                        "--kv-cache-memory-bytes", "1GiB", "-o", "json"))

    benchmark(batched[0])
    server, address = serving(args)
    try:
        run(args.weir, "bench", "serve", "--base-url", address, "--request-rate", rate, "--num-prompts", args.requests, "--num-warmups", 2, "--temperature", args.temperature,
            "--length-unit", "tokens", "--random-input-len", prompt, "--random-output-len", output, "--random-range-ratio", args.spread, "--seed", seed,
            "--metric-percentiles", "50,99", "--save-result", "--save-detailed", "--result-filename", path)
    finally:
        server.terminate()
        server.wait()
    benchmark(batched[1])
    with open(path) as f:
        result = json.load(f)
    plan = json.loads(run(args.weir, "plan", "--from", ",".join(batched), "--lengths", path, "--rate", rate, "--headroom", 0, "-o", "json"))
    mixed = plan["models"][0]["mixed"]["pools"][0]
    assert mixed["needed"] == 1, f"{rate} requests a second are more than one replica serves: {mixed['sustained_rate']}"
    return [(1000 * mixed["latency"][m][q + "_s"], result[f"{q}_{m}_ms"]) for m, q in QUANTILES]


def compare_latencies(args, folder):
    off = []
    for shape in args.shapes.split(","):
        prompt, output = map(int, shape.split("x"))
        for rate in map(float, args.latency.split(",")):
            ratios = [[] for _ in QUANTILES]
            for seed in range(args.rounds):
                row = {"shape": shape, "rate": rate}
                for i, ((m, q), (want, got)) in enumerate(zip(QUANTILES, latency(args, folder, prompt, output, rate, seed))):
                    ratios[i].append(want / got)
                    row[f"{m} {q}"] = [round(want, 1), round(got, 1)]
                print(json.dumps(row), flush=True)
            medians = {f"{m} {q}": round(statistics.median(r), 3) for (m, q), r in zip(QUANTILES, ratios)}
            print(json.dumps({"shape": shape, "rate": rate, "median_ratios": medians}), flush=True)
            off += [f"{shape} at {rate}: {name}" for name, r in medians.items() if name.endswith("p50") and not 1 / 1.15 <= r <= 1.15]
    return off


def measured(args, folder, prompt, output):
    """Requests a second of a saturated server, and their tokens in the mean."""
    server, address = serving(args, "--itl-target-ms", "0")
    try:
        path, count = os.path.join(folder, "serve.json"), args.clients * args.waves
        run(args.weir, "bench", "serve", "--base-url", address, "--max-concurrency", args.clients, "--num-prompts", count, "--num-warmups", 1, "--temperature", args.temperature,
            "--length-unit", "tokens", "--random-input-len", prompt, "--random-output-len", output, "--random-range-ratio", args.spread,
            "--save-result", "--save-detailed", "--result-filename", path)
        with open(path) as f:
            result = json.load(f)
        assert result["completed"] == count, result["completed"]
        ends = sorted(start + latency for start, latency in zip(result["start_times"], result["latencies"]))
        rate = (count - 2 * args.clients) / (ends[count - args.clients - 1] - ends[args.clients - 1])
        return rate, result["total_input_tokens"] / count, result["total_output_tokens"] / count
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--model", required=True)
    parser.add_argument("--shapes", default="128x32,512x16,32x128,512x128")
    for name, usual in (("rounds", 3), ("clients", 8), ("waves", 8), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=usual)
    parser.add_argument("--spread", type=float, default=0, help="lengths are spread over length x (1 ± this)")
    parser.add_argument("--latency", help="rates of requests a second at which latencies are compared")
    parser.add_argument("--requests", type=int, default=100, help="of each run with --latency")
    parser.add_argument("--temperature", type=float, default=0)
    args = parser.parse_args()
    if args.waves < 3:
        parser.error("--waves must be at least 3: the first and the last do not count")
    off = []
    with tempfile.TemporaryDirectory() as folder:
        if args.latency:
            off = compare_latencies(args, folder)
            sys.exit(f"a median is off by more than 15 %: {', '.join(off)}" if off else 0)
        for shape in args.shapes.split(","):
            prompt, output = map(int, shape.split("x"))
            ratios = []
            for _ in range(args.rounds):
                before = rates(args, prompt, output)
                got, tokens, answer = measured(args, folder, prompt, output)
                after = rates(args, prompt, output)
                prefill, decode = ((a + b) / 2 for a, b in zip(before, after))
                want = planned(args, prefill, decode, tokens, answer)
                ratios.append(want / got)
                print(json.dumps({"shape": shape, "prefill": [round(before[0]), round(after[0])], "decode": [round(before[1]), round(after[1])], "tokens": [round(tokens, 1), round(answer, 1)],
                                  "planned": round(want, 3), "measured": round(got, 3), "ratio": round(ratios[-1], 3)}), flush=True)
            median = statistics.median(ratios)
            print(json.dumps({"shape": shape, "median_ratio": round(median, 3)}), flush=True)
            off += [shape] if not 1 / 1.15 <= median <= 1.15 else []
    sys.exit(f"off by more than 15 %: {', '.join(off)}" if off else 0)


if __name__ == "__main__":
    main()
