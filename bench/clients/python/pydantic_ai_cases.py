"""Pydantic AI's agents."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from case import BASE, KEY, LONG, MODEL, expect, run

agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY)), instructions="Be brief.",
              model_settings={"temperature": 0, "max_tokens": 24})


def answer():
    r = agent.run_sync("Hello")
    expect("usage", r.usage.input_tokens > 0 and r.usage.output_tokens > 0)
    return r.output


def stream():
    async def whole():
        async with agent.run_stream("Hello") as r:
            return "".join([t async for t in r.stream_text(delta=True)])
    text = asyncio.run(whole())
    expect("the same text", text == agent.run_sync("Hello").output)
    return text


def history():
    first = agent.run_sync("Hello")
    second = agent.run_sync("Hello", message_history=first.all_messages())
    expect("a longer prompt", second.usage.input_tokens > first.usage.input_tokens)
    return second.output


def overflow():
    try:
        agent.run_sync(LONG[0]["content"])
    except ModelHTTPError as e:
        expect(f"400 and its code, not {e.body}", e.status_code == 400 and e.body["code"] == "context_length_exceeded")
        return e.body["message"]
    raise AssertionError("no error")


def tool():
    """The embedded model calls the tool by itself and tells its result."""
    one = Agent(agent.model, model_settings={"temperature": 0})

    @one.tool_plain
    def get_weather(city: str) -> str:
        return {"Paris": "sunny, 21 degrees"}[city]

    r = one.run_sync("What is the weather in Paris?")
    expect(f"the tool's result, not {r.output!r}", r.output == "The weather in Paris is sunny, 21 degrees.")
    return r.output


cases = {"answer": answer, "stream": stream, "history": history, "overflow": overflow}
if MODEL == "weir-default":
    cases["tool"] = tool
run("pydantic-ai-slim", cases)
