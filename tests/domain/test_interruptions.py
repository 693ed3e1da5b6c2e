"""What may answer an interruption, and what never may (R031, R110, R182, X50)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiosd.domain import lifecycle, waits
from aiosd.domain.content import Message, Option, Part, PartKind, Role
from aiosd.domain.errors import (
    AuthRejected,
    CredentialRefused,
    InputRejected,
    InterruptionMismatch,
    TaskStateInvalid,
)
from aiosd.domain.event import AuthRequired, InputRequired
from aiosd.domain.interruption import (
    AuthRequest,
    AuthResponse,
    AuthType,
    NeedKind,
    check_auth,
    check_options,
    hide_credentials,
    refuse_credentials,
    refuse_message_credentials,
)
from aiosd.domain.state import TaskState
from tests.support.builders import a_draft, a_need, a_question, drive, reopen

S = TaskState
OPTIONS = (Option("yes", "Yes"), Option("two", "Two", "2"), Option("obj", value='{"a":1}'))


@pytest.mark.req("R031", "X50")
@pytest.mark.parametrize(
    "answer", [{"choice": "yes"}, {"n": 2}, {"any": {"a": 1}}, {"x": 1, "choice": "two"}]
)
def test_an_answer_with_an_offered_id_or_value_fits(answer: dict[str, Any]) -> None:
    check_options(a_question(options=OPTIONS), answer)


@pytest.mark.req("R031", "X50")
@pytest.mark.parametrize(
    "answer", [{}, {"choice": "no"}, {"n": "2"}, {"n": 2.5}, {"n": True}, {"yes": 1}]
)
def test_any_other_answer_is_refused_and_told_the_options(answer: dict[str, Any]) -> None:
    with pytest.raises(InputRejected) as refused:
        check_options(a_question(options=OPTIONS), answer)
    assert refused.value.metadata["options"] == "yes,two,obj"


@pytest.mark.req("X50")
def test_a_schema_or_no_options_leave_the_answer_free() -> None:
    check_options(a_question(), {"anything": 1})
    check_options(a_question(options=OPTIONS, schema="{}"), {"anything": 1})


CREDENTIALS: list[Any] = [
    {"password": "hunter2"},
    {"deep": [{"api_key": "abcdefgh"}]},
    {"access-token": "x"},
    {"text": "Bearer abcdefghijkl"},
    {"text": "-----BEGIN RSA PRIVATE KEY-----\nMII"},
    {"text": "ghp_0123456789abcdefghij"},
]


@pytest.mark.req("R182", "Z12")
@pytest.mark.parametrize("value", CREDENTIALS)
def test_a_credential_as_input_is_refused_without_being_repeated(value: Any) -> None:
    with pytest.raises(CredentialRefused) as refused:
        refuse_credentials(value, "input")
    assert refused.value.metadata["field"].startswith("input")
    for secret in ("hunter2", "abcdefgh", "MII", "0123456789"):
        assert secret not in str(refused.value)


@pytest.mark.req("R182")
@pytest.mark.parametrize(
    "value", [{"city": "Rome"}, {"password": 3}, {"password": ""}, {"tokens": "many words"}, [1]]
)
def test_ordinary_input_is_no_credential(value: Any) -> None:
    refuse_credentials(value, "input")


@pytest.mark.req("R182", "Z12")
@pytest.mark.parametrize(
    "part",
    [Part(PartKind.TEXT, "Bearer abcdefghijkl"), Part(PartKind.DATA, '{"secret":"abcdefgh"}')],
)
def test_a_credential_in_a_message_is_refused(part: Part) -> None:
    with pytest.raises(CredentialRefused) as refused:
        refuse_message_credentials(Message("m-1", Role.USER, (part,)))
    assert refused.value.metadata["field"].startswith("message.parts[0]")


@pytest.mark.req("H25", "R113")
def test_credentials_in_metadata_are_hidden_and_other_text_is_left_as_it_is() -> None:
    hidden = json.loads(hide_credentials('{"a":{"password":"x"},"b":["Bearer abcdefghijkl"]}'))
    assert hidden == {"a": {"password": "***"}, "b": ["***"]}
    plain = '{ "n": 9007199254740993,  "t": "x" }'
    assert hide_credentials(plain) is plain


COMPLETE = [
    AuthResponse(AuthType.OAUTH2, authorization_code="c", state="s"),
    AuthResponse(AuthType.API_KEY, api_key="k"),
    AuthResponse(AuthType.PASSWORD, username="u", password="p"),
    AuthResponse(AuthType.CERTIFICATE, certificate="c"),
    AuthResponse(AuthType.APPROVAL, approve=True),
]


@pytest.mark.req("R108", "R109")
@pytest.mark.parametrize("response", COMPLETE)
def test_a_complete_response_of_the_type_asked_for_fits(response: AuthResponse) -> None:
    check_auth(AuthRequest(response.type), response)


@pytest.mark.req("R108", "R110")
@pytest.mark.parametrize("response", COMPLETE)
def test_another_type_and_an_incomplete_response_are_rejected(response: AuthResponse) -> None:
    for other in AuthType:
        if other is not response.type:
            with pytest.raises(AuthRejected):
                check_auth(AuthRequest(other), response)
    if response.type is not AuthType.APPROVAL:
        with pytest.raises(AuthRejected):
            check_auth(AuthRequest(response.type), AuthResponse(response.type))


@pytest.mark.req("R113")
def test_a_response_never_shows_its_secrets() -> None:
    for response in COMPLETE:
        assert not any(secret in repr(response) for secret in ("'c'", "'k'", "'p'", "'s'"))


@pytest.mark.req("R054", "R067", "R181", "R183")
def test_a_question_and_a_need_take_their_own_edges_with_their_companions() -> None:
    asked = drive(a_draft(), S.INPUT_REQUIRED)
    assert isinstance(asked.events[-1].payload, InputRequired)
    assert json.loads(asked.history[-1].metadata) == {"prompt": "which?", "options_count": 0}
    assert asked.history[-1].reason == "which?"
    needed = drive(a_draft(), S.AUTH_REQUIRED)
    assert isinstance(needed.events[-1].payload, AuthRequired)
    assert json.loads(needed.history[-1].metadata)["type"] == "api_key"
    approval = reopen(drive(a_draft(), S.WORKING))
    waits.interrupt(approval, a_need("approve", kind=NeedKind.HUMAN_APPROVAL))
    assert approval.task.state is S.AUTH_REQUIRED


@pytest.mark.req("R184", "I25")
def test_an_answer_that_names_another_interruption_changes_nothing() -> None:
    draft = reopen(drive(a_draft(), S.INPUT_REQUIRED))
    before = draft.task
    with pytest.raises(InterruptionMismatch):
        waits.answer(draft, "{}", "int-other", slot=True)
    assert draft.task is before


@pytest.mark.req("I25", "X08")
def test_a_question_is_answered_once_even_while_the_answer_waits_for_a_slot() -> None:
    draft = reopen(drive(a_draft(), S.INPUT_REQUIRED))
    waits.answer(draft, '{"a":1}', "", slot=False)
    assert draft.task.state is S.INPUT_REQUIRED
    assert draft.task.resume_pending
    with pytest.raises(TaskStateInvalid):
        waits.answer(draft, '{"a":2}', "", slot=True)
    waits.take_slot(draft)
    assert draft.task.state is S.WORKING
    assert [one.input for one in draft.task.answers] == ['{"a":1}']
    assert draft.history[-1].reason == "input received"


@pytest.mark.req("R050", "R112", "X04")
@pytest.mark.parametrize("state", [S.INPUT_REQUIRED, S.AUTH_REQUIRED])
def test_an_expired_wait_takes_two_edges_in_one_commit(state: TaskState) -> None:
    draft = drive(a_draft(), S.WORKING)
    wait = a_question if state is S.INPUT_REQUIRED else a_need
    waits.interrupt(draft, wait(timeout_ms=100, expire_time=draft.now + 100, create_time=draft.now))
    draft = reopen(draft, draft.now + 150)
    assert draft.task.due_time() == draft.now - 50
    lifecycle.expire_wait(draft)
    assert [one.state for one in draft.history] == [S.WORKING, S.FAILED]
    assert draft.history[0].reason == "wait_expired"
    failure = draft.task.failure
    assert failure is not None
    assert (failure.code, failure.message) == (-32005, "Timeout")
    assert json.loads(failure.data) == {
        "reason": "wait_expired",
        "waiting_for": "input" if state is S.INPUT_REQUIRED else "auth",
        "capability_id": "demo.work",
        "timeout_ms": 100,
        "elapsed_ms": 150,
    }


@pytest.mark.req("R113", "I25")
def test_a_credential_that_was_lost_is_asked_for_again() -> None:
    draft = reopen(drive(a_draft(), S.AUTH_REQUIRED))
    waits.authorize(draft, "", "given", slot=True)
    assert draft.task.state is S.WORKING
    waits.ask_again(draft, draft.now + 5)
    assert draft.task.state is S.AUTH_REQUIRED
    assert draft.task.interruption is not None
    assert draft.task.interruption.expire_time == draft.now + 5
    assert draft.task.granted is None


@pytest.mark.req("X07", "I17")
def test_a_restart_does_not_ask_for_an_attempt_that_is_gone() -> None:
    draft = reopen(drive(a_draft(retry_safe=True, max_attempts=2), S.AUTH_REQUIRED))
    waits.authorize(draft, "", "given", slot=False)
    lifecycle.lose(draft)
    told = len(draft.events)
    waits.withdraw_resume(draft)
    assert len(draft.events) == told
    waits.take_slot(draft)
    assert lifecycle.start(draft, "sess-2") == 2


@pytest.mark.req("X07", "I25")
def test_a_restart_withdraws_an_answer_whose_credential_is_gone_and_says_so() -> None:
    draft = reopen(drive(a_draft(), S.AUTH_REQUIRED))
    waits.authorize(draft, "", "given", slot=False)
    draft = reopen(draft)
    waits.withdraw_resume(draft)
    assert not draft.task.resume_pending
    assert isinstance(draft.events[-1].payload, AuthRequired)
    waits.authorize(draft, "", "given", slot=True)
    assert draft.task.state is S.WORKING
