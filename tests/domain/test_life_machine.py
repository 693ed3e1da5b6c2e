"""Any sequence of commands keeps the promises of a task's log, history and times."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiosd.domain import lifecycle, reports, waits
from aiosd.domain.content import LogLevel, LogLine, Message, MessageStatus, Progress, Role
from aiosd.domain.draft import Draft
from aiosd.domain.errors import Refusal
from aiosd.domain.event import StatusChanged
from aiosd.domain.failure import Failure, Outcome, RetryAdvice
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.state import TERMINAL, TRANSITIONS, TaskState
from aiosd.domain.task import Phase
from tests.support.builders import HOLDER, a_draft, a_need, a_question

S = TaskState


class Life(RuleBasedStateMachine):
    """A task, its whole log, and the time that it spent in WORKING counted apart."""

    @initialize(
        timeout=st.sampled_from((0, 500)),
        deadline=st.sampled_from((0, 4_000)),
        attempts=st.integers(1, 3),
        delay=st.sampled_from((0, 100)),
        safe=st.booleans(),
        pausable=st.booleans(),
    )
    def submit(
        self, timeout: int, deadline: int, attempts: int, delay: int, safe: bool, pausable: bool
    ) -> None:
        draft = a_draft(
            timeout_ms=timeout,
            deadline_ms=deadline,
            retry=RetryPolicy(attempts, delay),
            retry_safe=safe,
            pausable=pausable,
        )
        self.now = draft.now
        self.task = draft.task
        self.events = list(draft.events)
        self.history = list(draft.history)
        self.messages: dict[str, Message] = {}
        self.worked = 0
        self.starts = 0
        self.ids = itertools.count(1)

    def apply(self, command: object, *args: object, **named: object) -> bool:
        """One command, one commit; a refusal must change nothing."""
        before = self.task
        draft = Draft(before, self.now, began_in=before.state, messages=dict(self.messages))
        try:
            command(draft, *args, **named)  # type: ignore[operator]
        except Refusal:
            assert draft.task is before
            assert not draft.events and not draft.history and not draft.revised
            return False
        assert draft.task.revision == before.revision + int(draft.revised)
        assert draft.revised or draft.task is before
        assert [one.sequence for one in draft.events] == list(
            range(before.event_head + 1, draft.task.event_head + 1)
        )
        changes = [
            (one.payload.state, one.sequence)
            for one in draft.events
            if isinstance(one.payload, StatusChanged)
        ]
        assert changes == [(one.state, one.sequence) for one in draft.history]
        assert not before.terminal or draft.task.state is before.state
        self.task = draft.task
        self.events += draft.events
        self.history += draft.history
        self.messages.update(draft.changed_messages)
        return True

    # --- commands ---------------------------------------------------------------------------------

    @rule(ms=st.integers(0, 700))
    def pass_time(self, ms: int) -> None:
        self.now += ms
        if self.task.state is S.WORKING:
            self.worked += ms

    @rule()
    def start(self) -> None:
        startable = self.task.phase is Phase.QUEUED and not self.task.terminal
        assert self.apply(lifecycle.start, HOLDER) == startable
        self.starts += startable

    @precondition(lambda self: self.task.held and self.task.phase is Phase.RUNNING)
    @rule()
    def requeue(self) -> None:
        self.apply(lifecycle.requeue, "lost before the go-ahead")

    @rule()
    def lose(self) -> None:
        held, safe = self.task.held and not self.task.terminal, self.task.options.retry_safe
        left = self.task.options.retry.attempts_left(self.task.attempt.number)
        self.apply(lifecycle.lose)
        if held and not (safe and left):
            assert self.task.state is S.FAILED
            assert self.task.outcome is Outcome.UNCERTAIN
        elif held:
            assert not self.task.terminal
            assert not self.task.held

    @rule(retryable=st.booleans())
    def fail(self, retryable: bool) -> None:
        self.apply(lifecycle.fail, Failure(-32603, "broken", "error", retryable=retryable))

    @rule()
    def complete(self) -> None:
        self.apply(lifecycle.complete, "1")

    @rule()
    def reject(self) -> None:
        self.apply(lifecycle.reject, "no")

    @rule()
    def cancel(self) -> None:
        self.apply(lifecycle.cancel, "enough")

    @rule()
    def pause(self) -> None:
        self.apply(waits.pause, "")

    @rule(slot=st.booleans())
    def resume(self, slot: bool) -> None:
        self.apply(waits.resume, "", slot=slot)

    @rule(timeout=st.sampled_from((0, 300)))
    def ask(self, timeout: int) -> None:
        until = self.now + timeout if timeout else 0
        wait = a_question(f"ask-{next(self.ids)}", expire_time=until, timeout_ms=timeout)
        self.apply(waits.interrupt, wait)

    @rule(timeout=st.sampled_from((0, 300)))
    def need(self, timeout: int) -> None:
        until = self.now + timeout if timeout else 0
        wait = a_need(f"auth-{next(self.ids)}", expire_time=until, timeout_ms=timeout)
        self.apply(waits.interrupt, wait)

    @rule(slot=st.booleans(), known=st.booleans())
    def answer(self, slot: bool, known: bool) -> None:
        self.apply(waits.answer, "{}", "" if known else "int-other", slot=slot)

    @rule(slot=st.booleans())
    def authorize(self, slot: bool) -> None:
        self.apply(waits.authorize, "", "given", slot=slot)

    @rule()
    def take_slot(self) -> None:
        self.apply(waits.take_slot)

    @rule()
    def restart(self) -> None:
        self.apply(waits.withdraw_resume)

    @precondition(lambda self: self.task.held)
    @rule(streaming=st.booleans())
    def report(self, streaming: bool) -> None:
        status = MessageStatus.STREAMING if streaming else MessageStatus.COMPLETED
        self.apply(reports.progress, Progress(10))
        self.apply(reports.log, LogLine(LogLevel.INFO, "line"))
        self.apply(reports.message, Message("m-1", Role.AGENT, status=status))

    @precondition(lambda self: 0 < self.task.due_time() <= self.now)
    @rule()
    def time_has_come(self) -> None:
        """What the daemon's timers do."""
        task = self.task
        if task.deadline_time and task.deadline_time <= self.now:
            self.apply(lifecycle.pass_deadline)
        elif task.state is not S.WORKING:
            self.apply(lifecycle.expire_wait)
            assert self.history[-2].state is S.WORKING
            assert self.history[-2].reason == "wait_expired"
        elif task.options.timeout_ms and task.working_time(self.now) >= task.options.timeout_ms:
            self.apply(lifecycle.time_out)
        else:
            self.apply(lifecycle.back_off_over)
            assert self.task.phase is Phase.QUEUED
            return
        assert self.task.state is S.FAILED

    # --- promises ---------------------------------------------------------------------------------

    @invariant()
    def the_log_is_dense(self) -> None:
        assert [one.sequence for one in self.events] == list(range(1, len(self.events) + 1))
        assert self.task.event_head == len(self.events)

    @invariant()
    def the_history_is_a_walk_through_the_table(self) -> None:
        states = [one.state for one in self.history]
        assert states[0] is S.SUBMITTED
        assert states[-1] is self.task.state
        assert all(to in TRANSITIONS[state] for state, to in itertools.pairwise(states))
        assert [one.time for one in self.history] == sorted(one.time for one in self.history)
        assert sum(state in TERMINAL for state in states) <= 1

    @invariant()
    def working_time_is_the_time_in_working(self) -> None:
        assert self.task.working_time(self.now) == self.worked

    @invariant()
    def an_end_says_what_is_known(self) -> None:
        task = self.task
        assert task.terminal == bool(task.end_time) == (task.outcome is not None)
        if not task.terminal:
            return
        assert not task.held
        assert task.interruption is None
        assert task.due_time() == 0
        assert not task.open_messages
        if task.outcome is Outcome.UNCERTAIN and task.state is S.FAILED:
            assert task.advice is RetryAdvice.MANUAL_REVIEW
        if task.outcome is Outcome.NOT_STARTED:
            assert task.attempt.number == 0

    @invariant()
    def waits_and_attempts_agree_with_the_state(self) -> None:
        task = self.task
        waiting = task.state in (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
        assert waiting == (task.interruption is not None)
        assert bool(task.start_time) == (S.WORKING in {one.state for one in self.history})
        assert task.attempt.number <= max(task.options.retry.max_attempts, 1)
        if task.phase is Phase.QUEUED:
            assert not task.held


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase
