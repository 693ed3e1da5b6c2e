"""A grpcio server that answers the same message and does nothing: the ceiling to compare with."""

from __future__ import annotations

import sys
from typing import Any

import grpc
import uvloop

from aiosd.api.v1 import task_service_pb2


async def create(request: Any, context: Any) -> task_service_pb2.CreateTaskResponse:
    return task_service_pb2.CreateTaskResponse(created=True)


async def main(address: str) -> None:
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        create,
        request_deserializer=task_service_pb2.CreateTaskRequest.FromString,
        response_serializer=task_service_pb2.CreateTaskResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("aiosd.api.v1.TaskService", {"CreateTask": handler}),)
    )
    server.add_insecure_port(address)
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
