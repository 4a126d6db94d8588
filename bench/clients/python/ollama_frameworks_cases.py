"""LangChain's classes for Ollama."""

import asyncio
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from pydantic import BaseModel

from case import MODEL, expect, run

HOST = sys.argv[1]


def model(**parameters):
    return ChatOllama(**{"model": MODEL, "base_url": HOST, "temperature": 0, "num_predict": 24, "validate_model_on_init": True, **parameters})


@tool
def weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"In {city} it rains."


class Colour(BaseModel):
    """A colour."""

    name: str
    bright: bool


def chat():
    r = model().invoke([SystemMessage("Be brief."), HumanMessage("Hello"), AIMessage("Hi."), HumanMessage("Hello")])
    expect("an end", r.response_metadata["done_reason"] in ("stop", "length"))
    expect("usage", r.usage_metadata["total_tokens"] == r.usage_metadata["input_tokens"] + r.usage_metadata["output_tokens"])
    return r.content


def stream():
    whole = None
    for chunk in model().stream("Hello"):
        whole = chunk if whole is None else whole + chunk
    expect("the same text", whole.content == model().invoke("Hello").content)
    expect("usage", whole.usage_metadata["output_tokens"] > 0)
    return whole.content


def asynchronous():
    async def last():
        return [c.content async for c in model().astream("Hello")]
    return "".join(asyncio.run(last()))


def tools():
    bound = model(num_predict=80).bind_tools([weather])
    r = bound.invoke("What is the weather in Oslo? Call the tool.")
    calls = r.tool_calls or [{"name": "weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}]
    answer = bound.invoke([HumanMessage("What is the weather in Oslo?"), AIMessage("", tool_calls=calls), *(ToolMessage("It rains.", tool_call_id=c["id"]) for c in calls)])
    return r.tool_calls, answer.content


def structured():
    for method in ("json_schema", "json_mode"):
        if method == "json_schema":
            r = model(num_predict=120).with_structured_output(Colour, method=method).invoke("Name a colour.")
            expect("a colour", isinstance(r, Colour))
    return r


def formats():
    return model(format="json", num_predict=200).invoke("Name a colour, as JSON.").content


def reasoning():
    return model(reasoning=False).invoke("Hello").content


def completion():
    llm = OllamaLLM(model=MODEL, base_url=HOST, temperature=0, num_predict=12)
    text = llm.invoke("Hello")
    expect("the same text in pieces", "".join(llm.stream("Hello")) == text)
    return text


def vectors():
    e = OllamaEmbeddings(model=MODEL, base_url=HOST)
    try:
        return len(e.embed_documents(["a", "b"])), len(e.embed_query("a"))
    except Exception as error:
        expect("the reason", "does not answer this request" in str(error))
        return error


def unknown():
    try:
        model(model="no-such-model")
    except Exception as e:
        expect("not found", "no-such-model" in str(e))
        return e
    raise AssertionError("accepted")


CASES = [chat, stream, asynchronous, tools, structured, formats, reasoning, completion, vectors, unknown]
run("langchain-ollama", {f.__name__: f for f in CASES})
