"""Takes the place of vLLM's tests/utils.py: starts weir where the tests start vLLM, with what of their flags weir has."""
import os, signal, socket, subprocess, sys, time, tempfile
import anthropic, openai, requests
import hub
ROCM_EXTRA_ARGS = []; ROCM_ENV_OVERRIDES = {}
def _mark(*a, **k):
    if len(a) == 1 and callable(a[0]): return a[0]
    return lambda f: f
multi_gpu_only = requires_fp8 = large_gpu_mark = _mark
WEIR = os.environ["WEIR"]
ONE = {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--tool-call-parser", "--port", "--host", "--api-key", "--chat-template", "--lora-modules", "--max-lora-rank"}
SKIP = {"--dtype", "--max-cpu-loras", "--gpu-memory-utilization", "--runner", "--structured-outputs-config", "--seed", "--reasoning-parser",
        "--max-logprobs", "--root-path", "--middleware", "--shutdown-timeout", "--reasoning-config", "--pooler-config", "--convert", "--otlp-traces-endpoint", "--show-hidden-metrics-for-version",
        "--tokenizer-mode", "--attention-backend", "--hf-overrides", "--trust-remote-code-x", "--load-format", "--api-server-count", "--tensor-parallel-size", "--speculative-config", "--ssl-keyfile", "--task", "--override-pooler-config"}
class RemoteOpenAIServer:
    DUMMY_API_KEY = "token-abc123"
    last = None
    def __init__(self, model, vllm_serve_args, *, env_dict=None, seed=0, auto_port=True, max_wait_seconds=None, override_hf_configs=None, **k):
        self.model = model; self.host = "127.0.0.1"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0)); self.port = s.getsockname()[1]
        args = [str(a) for a in vllm_serve_args]
        out = [WEIR, "serve", hub.file_of(model), "--admin-address", "off", "--store", "off", "--threads", "2", "--host", self.host, "--api-metrics", "--open-metrics"]
        names, i, left = [], 0, []
        while i < len(args):
            a = args[i].replace("--max_model_len", "--max-model-len")
            if "=" in a and a.startswith("--"):
                a, v = a.split("=", 1); args[i:i + 1] = [a, v]; continue
            if a == "--served-model-name":
                i += 1
                while i < len(args) and not args[i].startswith("--"): names.append(args[i]); i += 1
                continue
            if a == "--port": self.port = int(args[i + 1]); i += 2; continue
            if a == "--max-model-len":
                out += [a, str(min(int(args[i + 1]), 512) if "minilm" in hub.file_of(model) else args[i + 1])]; i += 2; continue
            if a == "--chat-template" and "minilm" in hub.file_of(model): i += 2; continue
            if a in ("--max-num-seqs", "--max-num-batched-tokens") and "minilm" in hub.file_of(model): i += 2; continue
            if a in ONE:
                v = args[i + 1]
                if a == "--chat-template" and "{" in v:
                    f = tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False); f.write(v); f.close(); v = f.name
                out += [a, v]; i += 2; continue
            if a in SKIP: left.append(a); i += 2; continue
            left.append(a); i += 1
        for n in names or [model]: out += ["--served-model-name", n]
        env = {**os.environ, **(env_dict or {})}
        if env.get("VLLM_API_KEY"): out += ["--api-key", env["VLLM_API_KEY"]]
        out += ["--port", str(self.port)] + os.environ.get("WEIR_EXTRA", "").split()
        if not any(x in out for x in ("--max-model-len",)) and "minilm" not in out[2]: out += ["--max-model-len", "4096"]
        print("Launching", " ".join(map(str, out)), "left out:", left)
        self.log = tempfile.NamedTemporaryFile("w", suffix=".log", delete=False)
        self.proc = subprocess.Popen(out, env=env, stdout=self.log, stderr=self.log, start_new_session=True)
        RemoteOpenAIServer.last = self
        end = time.time() + 60
        while time.time() < end:
            try:
                if requests.get(self.url_for("health")).status_code == 200: return
            except Exception: pass
            if self.proc.poll() is not None: raise RuntimeError("Server exited unexpectedly: " + open(self.log.name).read()[-2000:])
            time.sleep(0.05)
        raise RuntimeError("Server failed to start in time.")
    def __enter__(self): return self
    def __exit__(self, *a):
        self.proc.terminate()
        try: self.proc.wait(10)
        except subprocess.TimeoutExpired: self.proc.kill(); self.proc.wait()
    @property
    def url_root(self): return f"http://{self.host}:{self.port}"
    def url_for(self, *parts): return self.url_root + "/" + "/".join(p.strip("/") for p in parts if p)
    def get_client(self, **k): return openai.OpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY, max_retries=0, **{"timeout": 600, **k})
    def get_async_client(self, **k): return openai.AsyncOpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY, max_retries=0, **{"timeout": 600, **k})
    def get_client_anthropic(self, **k): return anthropic.Anthropic(base_url=self.url_root, api_key=self.DUMMY_API_KEY, max_retries=0, **{"timeout": 600, **k})
    def get_async_client_anthropic(self, **k): return anthropic.AsyncAnthropic(base_url=self.url_root, api_key=self.DUMMY_API_KEY, max_retries=0, **{"timeout": 600, **k})
