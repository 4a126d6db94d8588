"""guidellm with two streams and prompts from a file, without a tokenizer from a hub."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

from case import BASE, MODEL, expect, run  # noqa: E402

COUNT, TOKENS = 8, 24


def benchmark(request_format):
    with tempfile.TemporaryDirectory() as folder:
        prompts, result = Path(folder, "prompts.jsonl"), Path(folder, "result.json")
        prompts.write_text("".join(json.dumps({"prompt": f"What is weir? {i}", "output_tokens_count": TOKENS}) + "\n"
                                   for i in range(COUNT)))
        done = subprocess.run(
            [Path(sys.executable).parent / "guidellm", "run", "--disable-console",
             "--backend", f"kind=openai_http,target={BASE.removesuffix('/v1')},model={MODEL},request_format={request_format}",
             "--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={COUNT}",
             "--data", f"kind=json_file,path={prompts}", "--output", f"kind=json,path={result}"],
            env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=300)
        expect(done.stderr[-400:], done.returncode == 0)
        report = json.loads(result.read_text())["benchmarks"][0]
    totals = report["metrics"]["request_totals"]
    expect(f"{COUNT} answers: {totals} {report['requests']['errored'][:1]}", totals["successful"] == COUNT)
    for request in report["requests"]["successful"]:
        expect(f"{TOKENS} tokens, not {request['output_tokens']}", request["output_tokens"] == TOKENS)
    return totals


run("guidellm", {"chat": lambda: benchmark("/v1/chat/completions"), "completions": lambda: benchmark("/v1/completions")})
