"""The official Python client on one binding of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientCallContext
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict

from tests.support.http import http_client

if TYPE_CHECKING:
    import httpx
    from a2a.client.client import Client

    from tests.support.stack import Stack


class Official:
    """A client made from the agent card, as any program would make it. Close it."""

    def __init__(self, client: Client, http: httpx.AsyncClient, token: str) -> None:
        self.client = client
        self._http = http
        self._token = token

    @classmethod
    async def open(cls, stack: Stack, binding: str, *, streaming: bool = True) -> Official:
        http = http_client(timeout=60, headers={"Authorization": f"Bearer {stack.token}"})
        card = await A2ACardResolver(http, stack.http).get_agent_card()
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
        )
        return cls(ClientFactory(config).create(card), http, stack.token)

    async def close(self) -> None:
        await self.client.close()
        await self._http.aclose()

    def context(self, **parameters: str) -> ClientCallContext:
        """What goes with a call: the token, and further service parameters."""
        return ClientCallContext(
            service_parameters={"authorization": f"Bearer {self._token}", **parameters}, timeout=60
        )

    async def say(self, params: dict[str, Any], **parameters: str) -> list[a2a_pb2.StreamResponse]:
        """Send a message; everything that comes back."""
        request = ParseDict(params, a2a_pb2.SendMessageRequest())
        answers = self.client.send_message(request, context=self.context(**parameters))
        return [answer async for answer in answers]

    async def get(self, task_id: str, history_length: int | None = None) -> a2a_pb2.Task:
        request = a2a_pb2.GetTaskRequest(id=task_id, history_length=history_length)
        return await self.client.get_task(request, context=self.context())

    async def cancel(self, task_id: str) -> a2a_pb2.Task:
        request = a2a_pb2.CancelTaskRequest(id=task_id)
        return await self.client.cancel_task(request, context=self.context())


def last_state(answers: list[a2a_pb2.StreamResponse]) -> str:
    """The state that the newest answer shows."""
    for answer in reversed(answers):
        if answer.HasField("status_update"):
            return a2a_pb2.TaskState.Name(answer.status_update.status.state)
        if answer.HasField("task"):
            return a2a_pb2.TaskState.Name(answer.task.status.state)
    return ""


def task_id_of(answers: list[a2a_pb2.StreamResponse]) -> str:
    """The id of the task that the first answer shows."""
    return str(answers[0].task.id)
