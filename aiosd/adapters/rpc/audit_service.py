"""AuditService: the chain, for those who may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec import tasks as codec
from aiosd.adapters.rpc.codec.scalars import timestamp
from aiosd.api.v1 import audit_pb2
from aiosd.api.v1 import audit_service_pb2 as wire
from aiosd.api.v1.audit_service_pb2_grpc import AuditServiceServicer
from aiosd.application.trust_ports import AnchorBroken

if TYPE_CHECKING:
    import grpc

    from aiosd.application.core import Core
    from aiosd.domain.audit import SealedRecord

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class AuditService(AuditServiceServicer):
    """List and verify."""

    def __init__(self, core: Core) -> None:
        self._audit = core.audit

    async def ListAuditRecords(
        self, request: wire.ListAuditRecordsRequest, context: Context
    ) -> wire.ListAuditRecordsResponse:
        size, after = (
            codec.page_size(request.page_size),
            codec.from_offset_token(request.page_token),
        )
        found = await self._audit.records(
            caller.get(), request.task_id, request.event, after, size + 1
        )
        return wire.ListAuditRecordsResponse(
            records=[_to_record(one) for one in found[:size]],
            next_page_token=str(found[size - 1].sequence) if len(found) > size else "",
        )

    async def VerifyAudit(
        self, request: wire.VerifyAuditRequest, context: Context
    ) -> wire.VerifyAuditResponse:
        try:
            finding = await self._audit.verify(caller.get())
        except AnchorBroken as broken:
            return wire.VerifyAuditResponse(intact=False, problem=str(broken))
        return wire.VerifyAuditResponse(
            intact=finding.intact,
            record_count=finding.count,
            broken_at=finding.broken_at,
            problem=finding.problem,
        )


def _to_record(sealed: SealedRecord) -> audit_pb2.AuditRecord:
    record = sealed.record
    return audit_pb2.AuditRecord(
        sequence=sealed.sequence,
        time=timestamp(record.time),
        event=record.event,
        principal=record.principal,
        method=record.method,
        task_id=record.task_id,
        capability_id=record.capability_id,
        decision=record.decision,
        details=record.details,
        request_hash=record.request_hash,
        previous_hash=sealed.previous_hash.hex(),
        hash=sealed.hash.hex(),
    )
