"""lm-eval's models for servers, on questions of our own: a hub is not asked for anything."""

import os
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_DATASETS_CACHE=str(Path(".cache/datasets").resolve()))
here = Path(__file__).parent
sys.path.insert(0, str(here.parent / "python"))
os.chdir(here)  # the tasks name their data by its file

from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from case import BASE, KEY, MODEL, expect, run  # noqa: E402

os.environ["OPENAI_API_KEY"] = KEY
manager = TaskManager(include_path=str(here), include_defaults=False)


def evaluate(model, path, tasks, **arguments):
    return simple_evaluate(
        model=model, model_args={"model": MODEL, "base_url": BASE + path, "num_concurrent": 4, "max_retries": 1, **arguments},
        tasks=tasks, task_manager=manager, apply_chat_template=model == "local-chat-completions", bootstrap_iters=0)


def answers(result):
    return [sample["filtered_resps"][0] for sample in result["samples"]["weir_text"]]


def scored():
    r = evaluate("local-completions", "/completions", ["weir_choice"], tokenizer_backend="remote")
    accuracy = r["results"]["weir_choice"]["acc,none"]
    expect(f"sentences are likelier than their words in disorder, not in {accuracy} of all cases", accuracy == 1)
    return f"accuracy {accuracy}"


def generated():
    ids = answers(evaluate("local-completions", "/completions", ["weir_text"], tokenizer_backend="remote"))
    text = answers(evaluate("local-completions", "/completions", ["weir_text"], tokenizer_backend="none", tokenized_requests=False))
    expect(f"token ids and text have the same answers: {ids} {text}", ids == text and any(ids))
    return ids


def chat():
    said = answers(evaluate("local-chat-completions", "/chat/completions", ["weir_text"]))
    expect("answers", all(said))
    return said


run("lm-eval", {"scored prompts": scored, "generated text": generated, "chat": chat})
