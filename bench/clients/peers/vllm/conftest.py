import sys, os
import stub  # noqa
class HfRunner: ...
class LocalAssetServer: ...
import pytest
@pytest.fixture(scope="session")
def hf_runner():
    import contextlib
    @contextlib.contextmanager
    def run(*a, **k):
        yield None
    return run
@pytest.fixture(scope="session")
def qwen3_lora_files():
    import hub
    return hub.adapter("qwen3-lora")
def pytest_collection_modifyitems(config, items):
    keep, drop = [], []
    for it in items:
        fx = set(it.fixturenames)
        (keep if fx & {"server", "server_fixture", "client", "httpx_client", "cohere_async_client", "remote_server", "chat_client_with_force_include_usage"} or "test_shutdown" in str(it.fspath) or "test_metrics" in str(it.fspath) else drop).append(it)
    config.hook.pytest_deselected(items=drop)
    items[:] = keep
