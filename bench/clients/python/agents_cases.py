"""openai-agents over POST /v1/responses and over chat completions."""

import asyncio

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

from case import BASE, KEY, MODEL, expect, run

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0)


def agent(kind):
    return Agent(name="one", instructions="Be brief.", model=kind(model=MODEL, openai_client=client),
                 model_settings=ModelSettings(temperature=0, max_tokens=60))


async def responses():
    return (await Runner.run(agent(OpenAIResponsesModel), "Hello")).final_output


async def responses_stream():
    result = Runner.run_streamed(agent(OpenAIResponsesModel), "Hello")
    kinds = [e.type async for e in result.stream_events()]
    expect("events", "raw_response_event" in kinds)
    expect("the same text", result.final_output == await responses())
    return result.final_output


async def chat():
    return (await Runner.run(agent(OpenAIChatCompletionsModel), "Hello")).final_output


loop = asyncio.new_event_loop()
run("openai-agents", {f.__name__: lambda f=f: loop.run_until_complete(f()) for f in (responses, responses_stream, chat)})
