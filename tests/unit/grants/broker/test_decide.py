"""Decision questions: the request, what a model is asked, and what becomes of its answer."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.decide import (
    UNSUPPORTED,
    Answered,
    AnswerInvalid,
    DecideInvalid,
    DecideRequest,
    Question,
    QuestionType,
    decide_response,
    messages_request,
    read_answer,
    read_request,
)

NOUL = {"type": "noul", "instructions": "Ship it?", "criteria": {"true": "ship", "false": "hold"}}
CHOICE = {"type": "choice", "instructions": "Which?", "criteria": {"small": "a", "large": "b"}}
SCORE = {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry", "furious"]}


def ask(**questions: Any) -> dict[str, Any]:
    return {"model": "m-1", "state": {"a": 1}, "questions": questions}


def read(document: Any) -> DecideRequest | DecideInvalid:
    return read_request(json.dumps(document).encode())


def question(document: Any) -> Question:
    request = read(ask(q=document))
    assert isinstance(request, DecideRequest)
    return request.questions[0]


def message(text: Any, **more: Any) -> bytes:
    content = [{"type": "thinking"}, {"type": "text", "text": text if isinstance(text, str) else json.dumps(text)}]
    usage = {"input_tokens": 3, "output_tokens": 2}
    return json.dumps({"content": content, "stop_reason": "end_turn", "usage": usage, **more}).encode()


def test_request() -> None:
    """A request names a model, a state, which may be null, and at least one question."""
    request = read({**ask(a=NOUL, b=CHOICE, c=SCORE), "state": None})
    assert isinstance(request, DecideRequest)
    assert (request.model, request.state) == ("m-1", None)
    assert [each.type for each in request.questions] == list(QuestionType)
    assert request.questions[1].options == ("small", "large")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param([], "is an object", id="array"),
        pytest.param({"model": "m", "questions": {"q": NOUL}}, "`state`", id="no state"),
        pytest.param({**ask(q=NOUL), "model": ""}, "`model`", id="empty model"),
        pytest.param({**ask(q=NOUL), "model": 7}, "`model`", id="model a number"),
        pytest.param(ask(), "1 to 64", id="no question"),
        pytest.param({**ask(), "questions": [NOUL]}, "1 to 64", id="questions an array"),
        pytest.param(ask(**{f"q{i}": NOUL for i in range(65)}), "1 to 64", id="too many"),
        pytest.param(ask(q=7), '"q"', id="question not an object"),
        pytest.param(ask(q={**NOUL, "type": "rank"}), '"q"', id="another type"),
        pytest.param(ask(q={**NOUL, "type": ["noul"]}), '"q"', id="type an array"),
        pytest.param(ask(q={**NOUL, "instructions": None}), '"q"', id="no instructions"),
        pytest.param(ask(q={**NOUL, "criteria": "x"}), '"q"', id="criteria text"),
        pytest.param(ask(q={"type": "noul", "instructions": ""}), '"q"', id="no criteria"),
    ],
)
def test_not_in_the_format(document: Any, said: str) -> None:
    """What is not in the format is refused before any model is asked."""
    result = read(document)
    assert isinstance(result, DecideInvalid)
    assert said in result.detail


def test_strict_json() -> None:
    """A body that reads in two ways is not in the format."""
    assert isinstance(read_request(b'{"model": 1, "model": 2}'), DecideInvalid)


@pytest.mark.parametrize(
    ("criteria", "options", "supported"),
    [
        pytest.param(["a", "b"], ("a", "b"), True, id="array"),
        pytest.param({"a": 1}, ("a",), True, id="object"),
        pytest.param([], (), False, id="nothing to choose"),
        pytest.param(["a", "a"], ("a",), False, id="twice"),
        pytest.param(["a", 1], ("a",), False, id="no text"),
        pytest.param([str(i) for i in range(101)], None, False, id="too many"),
    ],
)
def test_options(criteria: Any, options: tuple[str, ...] | None, supported: bool) -> None:
    """A choice that no model can be bound to is answered `unsupported`."""
    asked = question({**CHOICE, "criteria": criteria})
    assert asked.supported is supported
    assert options is None or asked.options == options


@pytest.mark.parametrize(
    ("document", "properties"),
    [
        pytest.param(NOUL, {"reason": {"type": "string"}, "noul": {"type": "number"}}, id="noul"),
        pytest.param(SCORE, {"reason": {"type": "string"}, "score": {"type": "number"}}, id="score"),
        pytest.param(
            CHOICE,
            {
                "reason": {"type": "string"},
                "choice": {"type": "string", "enum": ["small", "large"]},
                "probabilities": {
                    "type": "object",
                    "properties": {"small": {"type": "number"}, "large": {"type": "number"}},
                    "required": ["small", "large"],
                    "additionalProperties": False,
                },
            },
            id="choice",
        ),
    ],
)
def test_what_is_asked(document: Any, properties: Any) -> None:
    """The model is bound to a schema made for the question, and sees state, question and criteria."""
    request = read({**ask(q=document), "state": {"größe": [1]}})
    assert isinstance(request, DecideRequest)
    sent = json.loads(messages_request(request, request.questions[0]))
    assert sent["model"] == "m-1"
    assert sent["output_config"]["format"]["type"] == "json_schema"
    schema = sent["output_config"]["format"]["schema"]
    assert (schema["properties"], schema["required"]) == (properties, list(properties))
    content = sent["messages"][0]["content"]
    assert '{"größe": [1]}' in content
    assert document["instructions"] in content
    assert json.dumps(document["criteria"]) in content


@pytest.mark.parametrize(
    ("document", "given_answer", "answer"),
    [
        pytest.param(NOUL, {"noul": 0.25, "reason": "r"}, {"type": "noul", "noul": 0.25, "reason": "r"}, id="noul"),
        pytest.param(NOUL, {"noul": 1, "reason": ""}, {"type": "noul", "noul": 1}, id="noul, no reason"),
        pytest.param(NOUL, {"noul": 1.01}, None, id="noul, above 1"),
        pytest.param(NOUL, {"noul": -0.5}, None, id="noul, below 0"),
        pytest.param(NOUL, {"noul": True}, None, id="noul, boolean"),
        pytest.param(NOUL, {"reason": "r"}, None, id="noul, none"),
        pytest.param(NOUL, [], None, id="no object"),
        pytest.param(
            SCORE,
            {"score": 1.5, "reason": 7},
            {"type": "score", "score": 1.5, "legend": {"0": "calm", "1": "angry", "2": "furious"}},
            id="score",
        ),
        pytest.param(
            {**SCORE, "criteria": {"0": "x"}}, {"score": -3}, {"type": "score", "score": -3}, id="score, object"
        ),
        pytest.param(SCORE, {"score": "1"}, None, id="score, text"),
        pytest.param(
            CHOICE,
            {"choice": "small", "probabilities": {"small": 0.75, "large": 0.25}},
            {
                "type": "choice",
                "choice": "small",
                "probabilities": {"small": 0.75, "large": 0.25},
                "confidence": 0.75,
            },
            id="choice",
        ),
        pytest.param(CHOICE, {"choice": "other"}, None, id="choice, not an option"),
        pytest.param(CHOICE, {"choice": ["small"]}, None, id="choice, no text"),
        *[
            pytest.param(
                CHOICE, {"choice": "large", "probabilities": unsound}, {"type": "choice", "choice": "large"}, id=name
            )
            for name, unsound in {
                "probabilities, none": None,
                "probabilities, an option missing": {"small": 1},
                "probabilities, above 1": {"small": 1.5, "large": -0.5},
                "probabilities, another sum": {"small": 0.5, "large": 0.4},
                "probabilities, text": {"small": "1", "large": 0},
                "probabilities, boolean": {"small": True, "large": 0},
            }.items()
        ],
    ],
)
def test_answers(document: Any, given_answer: Any, answer: Any) -> None:
    """What the format demands makes an answer; what it allows to be absent is left out when it is unsound."""
    result = read_answer(question(document), message(given_answer))
    if answer is None:
        assert isinstance(result, AnswerInvalid)
        assert document["type"] in result.detail
    else:
        assert result == Answered(answer=answer, input_tokens=3, output_tokens=2)


def test_probabilities_sum_to_one() -> None:
    """Shares that rounding kept from 1 are made to sum to it."""
    asked = question({**CHOICE, "criteria": ["a", "b", "c"]})
    shares = {"a": 0.333, "b": 0.333, "c": 0.333}
    result = read_answer(asked, message({"choice": "a", "probabilities": shares}))
    assert isinstance(result, Answered)
    assert result.answer["probabilities"] == {name: pytest.approx(1 / 3) for name in shares}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(message("nothing"), id="text no JSON"),
        pytest.param(message({"noul": 1}, stop_reason="max_tokens"), id="cut"),
        pytest.param(message({"noul": 1}, stop_reason="refusal"), id="refused"),
        pytest.param(message({"noul": 1}, content="x"), id="no content"),
        pytest.param(message({"noul": 1}, content=[{"type": "text", "text": 1}]), id="text no text"),
        pytest.param(message('{"noul": NaN}'), id="not a number"),
    ],
)
def test_unusable(body: bytes) -> None:
    """An answer that is not what was asked for fails, and shows nothing of itself."""
    assert isinstance(read_answer(question(NOUL), body), AnswerInvalid)


@pytest.mark.parametrize(
    "usage", [None, {}, {"input_tokens": "3", "output_tokens": True}, {"input_tokens": -1, "output_tokens": 1.5}]
)
def test_unknown_usage(usage: Any) -> None:
    """Usage that is not said counts nothing."""
    result = read_answer(question(NOUL), message({"noul": 1}, usage=usage))
    assert isinstance(result, Answered)
    assert (result.input_tokens, result.output_tokens) == (0, 0)


def test_response() -> None:
    """One answer a question, the model as asked, usage summed."""
    request = read(ask(a=NOUL, b={**CHOICE, "criteria": []}))
    assert isinstance(request, DecideRequest)
    noul = Answered(answer={"type": "noul", "noul": 1}, input_tokens=3, output_tokens=2)
    assert decide_response(request, [noul, UNSUPPORTED]) == {
        "model": "m-1",
        "answers": {"a": {"type": "noul", "noul": 1}, "b": {"type": "unsupported"}},
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([NOUL, CHOICE, SCORE]), VALUES)
def test_total(document: Any, value: Any) -> None:
    """Any JSON is a request or none, and an answer or none."""
    assert isinstance(read(ask(q=value)), DecideInvalid)
    assert isinstance(read_answer(question(document), message(value)), Answered | AnswerInvalid)
