"""Judges a finished run by what was stored and by what every party saw, never by the core."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from aiosd.domain.content import LogLine, Progress
from aiosd.domain.event import (
    ArtifactChanged,
    AttemptChanged,
    AuthRequired,
    InputRequired,
    MessageChanged,
    ResultStored,
    StatusChanged,
    TaskFailed,
)
from aiosd.domain.failure import Outcome, RetryAdvice
from aiosd.domain.interruption import NeedKind
from aiosd.domain.state import TERMINAL, TRANSITIONS, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aiosd.adapters.memory.records import Record
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task
    from tests.simulation.faults import Stored
    from tests.simulation.world import Execution, World


def judge(world: World) -> list[str]:
    """Every broken promise, one sentence each."""
    found = list(world.blames)
    records = world.store._records.tasks
    commits: defaultdict[str, list[Stored]] = defaultdict(list)
    for one in world.faults.stored:
        commits[one.task.id].append(one)
    for task_id, record in records.items():
        events = [record.events[number] for number in sorted(record.events)]
        everything = whole_log(world, record)
        for verdict in (
            check_log(record, events, world.limits.event_retention),
            check_life(everything),
            check_history(record),
            check_executions(world, record.task, commits[task_id], everything),
            check_speakers(commits[task_id], world, everything),
            check_outcome(world, record.task, everything),
        ):
            found += [f"{task_id[-4:]}: {what}" for what in verdict]
    found += check_losses(world, commits)
    found += check_limits(world)
    found += check_promises(world)
    found += check_watchers(world)
    found += check_answers(world)
    found += check_rest(world)
    return found


def whole_log(world: World, record: Record) -> list[Event]:
    """Every event that was ever stored, those that retention cut included."""
    return [one for one in world.faults.events if one.task_id == record.task.id]


def check_log(record: Record, events: Sequence[Event], retention: int) -> Iterator[str]:
    """Numbers are dense from the floor to the head (I27)."""
    task = record.task
    numbers = [one.sequence for one in events]
    if numbers != list(range(task.event_floor, task.event_head + 1)):
        yield f"log holds {numbers[:3]}..{numbers[-1:]}, not {task.event_floor}..{task.event_head}"
    if len(numbers) > retention + retention // 10 + 1:
        yield f"{len(numbers)} events are kept"


def check_life(events: Sequence[Event]) -> Iterator[str]:
    """Every change is an edge of the table; one terminal event, and the last status (I08, I09)."""
    if [one.sequence for one in events] != list(range(1, len(events) + 1)):
        yield "events were stored out of order or twice"
    state: TaskState | None = None
    ends = 0
    for event in events:
        payload = event.payload
        if not isinstance(payload, StatusChanged):
            if state in TERMINAL and not isinstance(payload, ResultStored | TaskFailed):
                yield f"{type(payload).__name__} after the end"
            continue
        if payload.previous is not state:
            yield f"event {event.sequence} says it was {payload.previous}, but it was {state}"
        if state is not None and payload.state not in TRANSITIONS[state]:
            yield f"no edge from {state.word} to {payload.state.word}"
        state = payload.state
        ends += state in TERMINAL
    if ends > 1:
        yield f"{ends} terminal events"


def check_history(record: Record) -> Iterator[str]:
    """The history is the sequence of status events and ends where the task is (R053)."""
    changes = [record.history[number] for number in sorted(record.history)]
    if not changes or changes[0].state is not TaskState.SUBMITTED:
        yield "history does not begin with submitted"
    elif changes[-1].state is not record.task.state:
        yield f"history ends in {changes[-1].state.word}, the task is {record.task.state.word}"
    times = [one.time for one in changes]
    if times != sorted(times):
        yield "history is out of order"


def check_executions(
    world: World, task: Task, commits: Sequence[Stored], events: Sequence[Event]
) -> Iterator[str]:
    """A go-ahead only after its start was stored, for its holder, and never twice (I13, I14)."""
    executions = world.executions[task.id]
    for one in executions:
        if not any(
            stored.order < one.commits
            and stored.task.attempt.number == one.attempt
            and stored.task.attempt.holder == one.session
            for stored in commits
        ):
            yield f"{one.session}/{one.attempt} went ahead without a stored start"
        if task.request.capability_id in ("sim.high", "sim.critical") and not any(
            stored.order < one.commits and stored.task.permitted for stored in commits
        ):
            yield f"{one.session}/{one.attempt} went ahead without being permitted"

    def fenced(one: Execution, until: int) -> bool:
        holds = False
        for stored in commits:
            held = holds
            attempt = stored.task.attempt
            holds = (attempt.holder, attempt.number) == (one.session, one.attempt)
            if stored.order < until and held and not holds:
                return True
        return False

    for earlier, later in pairwise(executions):
        # A late go-ahead may reach a provider that has lost its attempt already.
        if not fenced(later, later.commits) and not fenced(earlier, later.commits):
            yield f"{later.session}/{later.attempt} overlaps {earlier.session}/{earlier.attempt}"
        failed = _said_failed(events, f"{earlier.session}/{earlier.attempt}")
        if not (task.options.retry_safe or failed):
            yield f"attempt {earlier.attempt} may have worked and was repeated"
    if len({(one.attempt, one.session) for one in executions}) != len(executions):
        yield "one attempt was begun twice"


def check_speakers(
    commits: Sequence[Stored], world: World, events: Sequence[Event]
) -> Iterator[str]:
    """Whatever is in the log was said by the session that held the attempt then (I15)."""
    del world
    by_head = {stored.task.event_head: stored for stored in commits}
    before: Stored | None = None
    for event in events:
        token = said_by(event)
        if token and before is not None:
            attempt = before.task.attempt
            if token != f"{attempt.holder}/{attempt.number}":
                yield (
                    f"event {event.sequence} was said by {token}, while"
                    f" {attempt.holder}/{attempt.number} held the task"
                )
        before = by_head.get(event.sequence, before)


def said_by(event: Event) -> str:
    """The mark of the execution that said it; empty for what the daemon said."""
    match event.payload:
        case Progress() | LogLine():
            return event.payload.message
        case MessageChanged():
            return event.payload.message.parts[0].content
        case ArtifactChanged():
            return event.payload.artifact.name.removeprefix("art-").rpartition("-")[0]
        case InputRequired() | AuthRequired():
            wait = event.payload.interruption
            return "" if wait.kind is NeedKind.HUMAN_APPROVAL else wait.prompt
        case ResultStored():
            return str(json.loads(event.payload.result))
        case AttemptChanged(change="failed"):
            return event.payload.reason
        case TaskFailed():
            return _told_by_provider(event.payload)
    return ""


def _told_by_provider(payload: TaskFailed) -> str:
    if payload.failure.reason == "rejected":
        why = json.loads(payload.failure.data)["details"]
        return "" if why == "no" else str(why)
    return payload.failure.message if "/" in payload.failure.message else ""


def _said_failed(events: Sequence[Event], token: str) -> bool:
    return any(
        said_by(event) == token
        for event in events
        if isinstance(event.payload, AttemptChanged | TaskFailed)
    )


def check_outcome(world: World, task: Task, events: Sequence[Event]) -> Iterator[str]:
    """Nothing is claimed that is not known (I16)."""
    executions = world.executions[task.id]
    if not task.terminal:
        return
    if task.outcome is None:
        yield "ended without an outcome"
    if task.outcome is Outcome.NOT_STARTED and executions:
        yield "claims that it was not started, but a provider went ahead"
    if task.outcome is Outcome.UNCERTAIN and task.advice not in (None, RetryAdvice.MANUAL_REVIEW):
        yield f"uncertain, but advises {task.advice}"
    if task.state is TaskState.COMPLETED:
        if not executions or json.loads(task.result or "0") not in _tokens(world, task.id):
            yield f"completed with {task.result}, which nobody said"
    elif task.outcome is Outcome.CERTAIN:
        lost = task.failure is not None and task.failure.reason == "agent_lost"
        for one in executions:
            told = _said_failed(events, f"{one.session}/{one.attempt}")
            if not told and (lost or not task.options.retry_safe):
                yield f"claims certainty, but {one.session}/{one.attempt} never told its end"


def _tokens(world: World, task_id: str) -> set[str]:
    return {f"{one.session}/{one.attempt}" for one in world.executions[task_id]}


def check_losses(world: World, commits: Mapping[str, Sequence[Stored]]) -> Iterator[str]:
    """Nobody is declared lost who could show signs of life all the time (I18)."""
    limits = world.limits
    patience = (limits.lease_ms + limits.reattach_window_ms) / 1000 + 2
    for task_id, changes in commits.items():
        for before, after in pairwise(changes):
            lost = any(
                isinstance(one.payload, AttemptChanged) and one.payload.change == "lost"
                for one in world.faults.events
                if one.task_id == task_id
                and before.task.event_head < one.sequence <= after.task.event_head
            )
            name = before.task.attempt.holder.partition("-")[0]
            if lost and not any(
                who in (name, "daemon") and begun <= after.time <= until + patience
                for who, begun, until in world.excuses
            ):
                yield f"{task_id[-4:]}: {before.task.attempt.holder} was lost for no reason"


def check_limits(world: World) -> Iterator[str]:
    """At no commit are more tasks WORKING or queued than allowed (R091, R092, R093)."""
    limits = world.limits
    working: dict[str, str] = {}
    queued: set[str] = set()
    for stored in world.faults.stored:
        task = stored.task
        working.pop(task.id, None)
        queued.discard(task.id)
        if task.state is TaskState.WORKING:
            working[task.id] = task.request.tool_id
        elif task.state is TaskState.SUBMITTED:
            queued.add(task.id)
        tools = list(working.values())
        if len(working) > limits.max_concurrent_tasks:
            yield f"{len(working)} tasks are working at {stored.time:.3f}"
        if any(tools.count(tool) > limits.max_tasks_per_tool for tool in tools):
            yield f"tools {sorted(tools)} are working at {stored.time:.3f}"
        if len(queued) > limits.max_queue_size:
            yield f"{len(queued)} tasks are queued at {stored.time:.3f}"


def check_promises(world: World) -> Iterator[str]:
    """What was answered with success is true afterwards (I01, I03, I21)."""
    records = world.store._records.tasks
    for task_id, told in world.acknowledged.items():
        if task_id not in records:
            yield f"{task_id[-4:]}: was acknowledged and does not exist"
        elif records[task_id].task.request != told.request:
            yield f"{task_id[-4:]}: is not what was asked for"
    for key, tasks in world.keys.items():
        if len(tasks) > 1:
            yield f"key {key} stands for {len(tasks)} tasks"
    for task_id, state in world.promises.items():
        if task_id in records and records[task_id].task.state is not state:
            yield f"{task_id[-4:]}: was said to be {state.word}"


def check_watchers(world: World) -> Iterator[str]:
    """Every watcher saw the log, without gap, repetition or other order (I28, I29, I30)."""
    stored = {(one.task_id, one.sequence): one for one in world.faults.events}
    for watcher in world.watchers:
        name = f"a watcher of {watcher.task_id[-4:]}"
        cursor = watcher.after
        cuts = dict(watcher.cuts)
        for event in watcher.events:
            if event.sequence != cursor + 1 and cuts.get(cursor) != event.sequence:
                yield f"{name} saw {event.sequence} after {cursor}"
            if stored.get((event.task_id, event.sequence)) != event:
                yield f"{name} saw an event {event.sequence} that is not in the log"
            cursor = event.sequence
        record = world.store._records.tasks.get(watcher.task_id)
        if watcher.ended and record is not None and cursor != record.task.event_head:
            yield f"{name} was told the end at {cursor} of {record.task.event_head}"


def check_answers(world: World) -> Iterator[str]:
    """Each question is answered once, and its attempt goes on with that answer (I25)."""
    asked = Counter(
        one.payload.interruption.interruption_id
        for one in world.faults.events
        if isinstance(one.payload, InputRequired | AuthRequired)
    )
    for (task_id, action), given in world.answers.items():
        # A credential that was lost with the daemon is asked for again.
        sure = Counter(question for question, _, known in given if known)
        if any(sure[question] > asked[question] for question in sure):
            yield f"{task_id[-4:]}: {action} was answered more often than it was asked"
        offered = {text for _, text, _ in given}
        for (user, token, used), values in world.used.items():
            if user == task_id and used.removeprefix("early ") == action:
                wrong = [value for value in values if value not in offered]
                if wrong:
                    yield f"{task_id[-4:]}: {token} was told {wrong} for {action}"
                if used == action and len(values) > 1:
                    yield f"{task_id[-4:]}: {token} went on twice after {action}"


def check_rest(world: World) -> Iterator[str]:
    """In the end nothing is stuck, and nothing holds a slot or a place that it does not need."""
    core = world.daemon.core
    if core is None:
        yield "the daemon is not running"
        return
    queued = 0
    for record in world.store._records.tasks.values():
        task = record.task
        queued += task.state is TaskState.SUBMITTED
        if not task.terminal:
            yield (
                f"{task.id[-4:]}: is still {task.state.word} ({task.phase.name}, attempt"
                f" {task.attempt.number} of {task.attempt.holder or 'nobody'})"
            )
        elif task.held:
            yield f"{task.id[-4:]}: has ended and is still held"
    if core.slots.working and not queued:
        yield f"{core.slots.working} slots are taken by nothing"
    if core.creation.queued != queued:
        yield f"counts {core.creation.queued} queued tasks, not {queued}"
    for session in core.sessions.all():
        if session.held or session.offers:
            yield f"session {session.id} still holds {[*session.held, *session.offers]}"
    for watcher in world.watchers:
        if not watcher.ended:
            yield f"a watcher of {watcher.task_id[-4:]} never saw the end"
