"""openai-agents over POST /v1/responses and over chat completions."""

import asyncio
from typing import Literal

from agents import (Agent, MaxTurnsExceeded, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool,
                    set_tracing_disabled)
from openai import AsyncOpenAI
from pydantic import BaseModel

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


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


seen = []


@function_tool
def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city."""
    seen.append(city)
    return f"sun in {city}"


def caller(kind):
    return Agent(name="two", model=kind(model=MODEL, openai_client=client), tools=[get_weather],
                 model_settings=ModelSettings(temperature=0, max_tokens=200, tool_choice="required", parallel_tool_calls=False))


async def tools(kind):
    """The first turn must call. The library asks for the others with tool_choice auto, and gets text or, of some models, calls for ever."""
    seen.clear()
    try:
        r = await Runner.run(caller(kind), "What is the weather in Paris?", max_turns=4)
    except MaxTurnsExceeded:
        expect("calls in each turn", len(seen) >= 4)
        return "calls to the last turn"
    results = [i.output for i in r.new_items if i.type == "tool_call_output_item"]
    expect("results of calls", results and all(o.startswith("sun in ") for o in results))
    return r.final_output


async def responses_tools():
    return await tools(OpenAIResponsesModel)


async def chat_tools():
    return await tools(OpenAIChatCompletionsModel)


async def stream_tools():
    result, names = Runner.run_streamed(caller(OpenAIResponsesModel), "What is the weather in Paris?", max_turns=4), []
    try:
        async for e in result.stream_events():
            names += [e.name] if e.type == "run_item_stream_event" else []
    except MaxTurnsExceeded:
        pass
    expect("a call and its result", "tool_called" in names and "tool_output" in names)
    return names


async def typed():
    made = Agent(name="three", model=OpenAIResponsesModel(model=MODEL, openai_client=client), output_type=Weather,
                 model_settings=ModelSettings(temperature=0, max_tokens=200))
    r = (await Runner.run(made, "What is the weather in Paris?")).final_output
    expect("a Weather", isinstance(r, Weather))
    return r


@function_tool(name_override="get_weather")
def report(city: str) -> str:
    """The weather of a city."""
    return {"Paris": "sunny, 21 degrees"}[city]


async def own_call(kind=OpenAIResponsesModel):
    """The embedded model calls the tool by itself and tells its result."""
    one = Agent(name="one", tools=[report], model=kind(model=MODEL, openai_client=client), model_settings=ModelSettings(temperature=0))
    answer = (await Runner.run(one, "What is the weather in Paris?")).final_output
    expect(f"the tool's result, not {answer!r}", answer == "The weather in Paris is sunny, 21 degrees.")
    return answer


async def own_call_as_a_stream():
    one = Agent(name="one", tools=[report], model=OpenAIResponsesModel(model=MODEL, openai_client=client), model_settings=ModelSettings(temperature=0))
    result = Runner.run_streamed(one, "What is the weather in Paris?")
    names = [e.name async for e in result.stream_events() if e.type == "run_item_stream_event"]
    expect(f"a call, its result and the answer, not {names}", names == ["tool_called", "tool_output", "message_output_created"])
    expect(f"the tool's result, not {result.final_output!r}", result.final_output == "The weather in Paris is sunny, 21 degrees.")
    return names


class Person(BaseModel):
    """A person."""

    name: str
    age: int


async def own_record():
    made = Agent(name="four", model=OpenAIResponsesModel(model=MODEL, openai_client=client), output_type=Person, model_settings=ModelSettings(temperature=0))
    r = (await Runner.run(made, "Ann is 31 years old.")).final_output
    expect(f"Ann, 31, not {r!r}", r == Person(name="Ann", age=31))
    return r


async def own_call_of_a_chat():
    return await own_call(OpenAIChatCompletionsModel)


cases = [responses, responses_stream, chat, responses_tools, chat_tools, stream_tools, typed]
if MODEL == "weir-default":
    cases += [own_call, own_call_of_a_chat, own_call_as_a_stream, own_record]
loop = asyncio.new_event_loop()
run("openai-agents", {f.__name__: lambda f=f: loop.run_until_complete(f()) for f in cases})
