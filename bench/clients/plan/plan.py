#!/usr/bin/env python3
"""What weir plan says that one replica bears, against what it does: the benchmark and the run in turns.

    plan.py --weir ./weir --model m.gguf [--rounds 3] [--clients 8] [--input 128] [--output 32] [--requests 48] [--threads 1]

Each round measures prompts and outputs apart (weir bench batched), has weir plan compute the requests a second of one replica
without headroom, then saturates a server with clients that always wait (weir bench serve), and measures the benchmark again, since
machines change; the plan is the mean of both. It prints one JSON object a round, and the median of planned / measured.
"""
import argparse, json, os, re, statistics, subprocess, tempfile


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def planned(args, folder):
    """Requests a second of one replica, by the plan."""
    path = os.path.join(folder, "batched.json")
    with open(path, "w") as f:
        f.write(run(args.weir, "bench", "batched", args.model, "-t", str(args.threads), "--npp", str(args.input), "--ntg", str(args.output), "--npl", str(args.clients), "-o", "json"))
    text = run(args.weir, "plan", "--from", path, "--rate", "100", "--prompt", str(args.input), "--output", str(args.output), "--headroom", "0")
    return 100 / float(re.search(r"by compute .*= ([\d.]+) replicas", text, re.S)[1])


def measured(args, folder):
    """Requests a second of a saturated server."""
    server = subprocess.Popen([args.weir, "serve", args.model, "-t", str(args.threads), "--port", "0", "--admin-address", "off", "--itl-target-ms", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in server.stdout:
            if m := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        path = os.path.join(folder, "serve.json")
        run(args.weir, "bench", "serve", "--base-url", m[0], "--max-concurrency", str(args.clients), "--num-prompts", str(args.requests), "--num-warmups", "1",
            "--length-unit", "tokens", "--random-input-len", str(args.input), "--random-output-len", str(args.output), "--save-result", "--result-filename", path)
        with open(path) as f:
            result = json.load(f)
        assert result["completed"] == args.requests, result["completed"]
        return result["request_throughput"], result["total_input_tokens"] / args.requests
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="./weir")
    parser.add_argument("--model", required=True)
    for name, usual in (("rounds", 3), ("clients", 8), ("input", 128), ("output", 32), ("requests", 48), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=usual)
    args = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            before = planned(args, folder)
            got, tokens = measured(args, folder)
            after = planned(args, folder)
            ratios.append((before + after) / 2 / got)
            print(json.dumps({"planned": [round(before, 3), round(after, 3)], "measured": round(got, 3), "prompt_tokens": round(tokens, 1), "ratio": round(ratios[-1], 3)}), flush=True)
    print(json.dumps({"median_ratio": round(statistics.median(ratios), 3)}))


if __name__ == "__main__":
    main()
