"""Instructor in each of its modes for OpenAI's API.

What a mode asks the server to enforce holds for any model. JSON asks for any object, MD_JSON and PARALLEL_TOOLS leave the form to the
model, which a small one does not know: their requests must be taken, and the library must read the answers."""

from typing import Iterable, Literal

import instructor
import openai
from instructor import Mode
from instructor.core.exceptions import IncompleteOutputException, InstructorRetryException
from pydantic import BaseModel

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
ASK = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "temperature": 0, "max_retries": 0}


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


def create(mode, **parameters):
    most = "max_output_tokens" if mode is Mode.RESPONSES_TOOLS else "max_tokens"
    return instructor.from_openai(client, mode=mode, model=MODEL).create(**{**ASK, most: 200, "response_model": Weather, **parameters})


def checked(mode):
    def case():
        r = create(mode)
        expect(f"a Weather, not {r!r}", isinstance(r, Weather))
        return r
    return case


def partial():
    parts = list(instructor.from_openai(client, mode=Mode.TOOLS, model=MODEL).create_partial(**ASK, max_tokens=200, response_model=Weather))
    expect("the last part is whole", Weather.model_validate(parts[-1].model_dump()))
    return len(parts)


def asked(mode, **parameters):
    def case():
        try:
            return create(mode, **parameters)
        except (IncompleteOutputException, InstructorRetryException) as e:  # the answer is something else
            expect(f"an answer, not {e}", e.last_completion is not None)
            return "the model wrote something else"
    return case


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def told(mode):
    def case():
        """The embedded model fills in what the message says."""
        r = create(mode, messages=[{"role": "user", "content": "Ann is 31 years old."}], response_model=Person)
        expect(f"Ann, 31, not {r!r}", (r.name, r.age) == ("Ann", 31))
        return r
    return case


cases = {
    **{m.name: checked(m) for m in (Mode.TOOLS, Mode.TOOLS_STRICT, Mode.JSON_SCHEMA, Mode.RESPONSES_TOOLS)},
    "JSON": asked(Mode.JSON), "MD_JSON": asked(Mode.MD_JSON),
    "PARALLEL_TOOLS": asked(Mode.PARALLEL_TOOLS, response_model=Iterable[Weather]), "partial": partial,
}
if MODEL == "weir-default":
    cases |= {f"{m.name}: Ann": told(m) for m in (Mode.TOOLS, Mode.TOOLS_STRICT, Mode.JSON_SCHEMA, Mode.RESPONSES_TOOLS)}
run("instructor", cases)
