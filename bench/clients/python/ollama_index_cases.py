"""LlamaIndex's classes for Ollama, and litellm's provider."""

import asyncio
import json
import sys

import litellm
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama
from pydantic import BaseModel

from case import MODEL, expect, run

HOST = sys.argv[1]
litellm.suppress_debug_info = True


def model(**parameters):
    return Ollama(**{"model": MODEL, "base_url": HOST, "temperature": 0, "request_timeout": 120, "context_window": 1024, "additional_kwargs": {"num_predict": 24}, **parameters})


class Colour(BaseModel):
    """A colour."""

    name: str
    bright: bool


def weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"In {city} it rains."


TOOL = FunctionTool.from_defaults(weather)


def complete():
    text = model().complete("Hello").text
    expect("the same text in pieces", "".join(r.delta for r in model().stream_complete("Hello")) == text)
    return text


def chat():
    messages = [ChatMessage(role=MessageRole.SYSTEM, content="Be brief."), ChatMessage(role=MessageRole.USER, content="Hello")]
    text = model().chat(messages).message.content
    expect("the same text in pieces", "".join(r.delta or "" for r in model().stream_chat(messages)) == text)
    return text


def asynchronous():
    async def both():
        whole = (await model().achat([ChatMessage(role=MessageRole.USER, content="Hello")])).message.content
        parts = "".join([r.delta or "" async for r in await model().astream_chat([ChatMessage(role=MessageRole.USER, content="Hello")])])
        expect("the same text in pieces", parts == whole)
        return whole
    return asyncio.run(both())


def tools():
    llm = model(additional_kwargs={"num_predict": 80})
    r = llm.chat_with_tools([TOOL], user_msg="What is the weather in Oslo? Call the tool.")
    calls = llm.get_tool_calls_from_response(r, error_on_no_tool_call=False)
    if calls:
        again = [ChatMessage(role=MessageRole.USER, content="What is the weather in Oslo?"), r.message,
                 ChatMessage(role=MessageRole.TOOL, content="It rains.", additional_kwargs={"tool_call_id": calls[0].tool_id})]
        llm.chat(again)
    return [(c.tool_name, c.tool_kwargs) for c in calls]


def structured():
    r = model(additional_kwargs={"num_predict": 120}).as_structured_llm(Colour).complete("Name a colour.")
    expect("a colour", isinstance(r.raw, Colour))
    return r.raw


def vectors():
    try:
        return len(OllamaEmbedding(model_name=MODEL, base_url=HOST).get_text_embedding("a"))
    except Exception as e:
        expect("the reason", "does not answer this request" in str(e))
        return e


def litellm_chat():
    for provider in ("ollama_chat", "ollama"):
        ask = {"model": f"{provider}/{MODEL}", "api_base": HOST, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16, "temperature": 0}
        r = litellm.completion(**ask)
        expect("usage", r.usage.completion_tokens > 0 and r.choices[0].finish_reason in ("stop", "length"))
        text = "".join(c.choices[0].delta.content or "" for c in litellm.completion(stream=True, **ask))
        expect("the same text in pieces", text == r.choices[0].message.content)
    return text


def litellm_tools():
    tool = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    ask = [{"role": "user", "content": "What is the weather in Oslo? Call the tool."}]
    r = litellm.completion(model=f"ollama_chat/{MODEL}", api_base=HOST, messages=ask, tools=[tool], max_tokens=80, temperature=0)
    calls = r.choices[0].message.tool_calls or []
    if calls:
        messages = [*ask, r.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": calls[0].id, "content": "It rains."}]
        litellm.completion(model=f"ollama_chat/{MODEL}", api_base=HOST, messages=messages, tools=[tool], max_tokens=16)
    return [c.function.arguments for c in calls]


def litellm_schema():
    r = litellm.completion(model=f"ollama_chat/{MODEL}", api_base=HOST, messages=[{"role": "user", "content": "Name a colour."}], response_format=Colour, max_tokens=120, temperature=0)
    return Colour(**json.loads(r.choices[0].message.content))


def litellm_faults():
    try:
        litellm.completion(model="ollama_chat/no-such-model", api_base=HOST, messages=[{"role": "user", "content": "Hello"}], max_retries=0)
    except litellm.exceptions.APIError as e:
        return e
    except Exception as e:
        expect("not found", "not found" in str(e))
        return e
    raise AssertionError("accepted")


CASES = [complete, chat, asynchronous, tools, structured, vectors, litellm_chat, litellm_tools, litellm_schema, litellm_faults]
run("llama-index-llms-ollama", {f.__name__: f for f in CASES})
