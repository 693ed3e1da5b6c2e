"""Which scope each RPC asks for: one table, asked by the guard before a handler runs (S-07, H05).

A method that is not here does not start. Whose a task is, is decided where it is loaded
(`application/access.py`): there a foreign one is answered like an absent one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiosd.application.access import ATTACH
from aiosd.application.errors import PermissionDenied

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor

    from aiosd.application.access import Caller

APPROVE: Final = "permission:approve"
#: For whoever has a valid credential.
ANYBODY: Final = ""

_CREATE, _READ, _CONTROL, _INPUT = "task:create", "task:read", "task:control", "task:input"
_WEBHOOK, _AUDIT, _TOKENS = "webhook:manage", "audit:read", "token:manage"

#: Service.Method -> the scopes of which one is needed.
SCOPES: Final[dict[str, tuple[str, ...]]] = {
    "TaskService.CreateTask": (_CREATE,),
    "TaskService.BatchCreateTasks": (_CREATE,),
    "TaskService.GetTask": (_READ, APPROVE),
    "TaskService.ListTasks": (_READ, APPROVE),
    "TaskService.CancelTask": (_CONTROL,),
    "TaskService.PauseTask": (_CONTROL,),
    "TaskService.ResumeTask": (_CONTROL,),
    "TaskService.SubmitInput": (_INPUT,),
    "TaskService.AuthenticateTask": (_INPUT, APPROVE),
    "TaskService.SubscribeToTask": (_READ,),
    "TaskService.ResolveTask": (_CONTROL,),
    "TaskService.AcceptTask": (_CONTROL,),
    "TaskService.ListMessages": (_READ,),
    "ArtifactService.GetArtifact": (_READ,),
    "ArtifactService.ListArtifacts": (_READ,),
    "ArtifactService.ReadArtifact": (_READ,),
    "CapabilityService.ListCapabilities": (_READ,),
    "CapabilityService.GetCapability": (_READ,),
    "SubscriptionService.CreateSubscription": (_READ,),
    "SubscriptionService.GetSubscription": (_READ,),
    "SubscriptionService.DeleteSubscription": (_READ,),
    "SessionService.CreateSession": (ANYBODY,),
    "SessionService.GetSession": (ANYBODY,),
    "SessionService.CloseSession": (ANYBODY,),
    "OperationService.CreateOperation": (_CREATE,),
    "OperationService.GetOperation": (_READ,),
    "OperationService.ListOperations": (_READ,),
    "OperationService.CancelOperation": (_CONTROL,),
    "OperationService.SubscribeToOperation": (_READ,),
    "OperationService.CloseOperation": (_CONTROL,),
    "OperationService.ListInstances": (_READ,),
    "OperationService.GetInstance": (_READ,),
    "WebhookService.CreateWebhook": (_WEBHOOK,),
    "WebhookService.GetWebhook": (_READ,),
    "WebhookService.ListWebhooks": (_READ,),
    "WebhookService.DeleteWebhook": (_WEBHOOK,),
    "WebhookService.RotateWebhookSecret": (_WEBHOOK,),
    "WebhookService.ListDeliveries": (_READ,),
    "WebhookService.RedeliverDelivery": (_WEBHOOK,),
    "AuditService.ListAuditRecords": (_AUDIT,),
    "AuditService.VerifyAudit": (_AUDIT,),
    "PermissionService.RequestPermission": (_CREATE,),
    "PermissionService.ListGrants": (_READ, APPROVE),
    "PermissionService.RevokeGrants": (_CONTROL, APPROVE),
    "AccessService.CreateToken": (_TOKENS,),
    "AccessService.ListTokens": (_TOKENS,),
    "AccessService.RevokeToken": (_TOKENS,),
    "SystemService.GetSystemInfo": (ANYBODY,),
    "SystemService.ListProviders": (_READ,),
    "ProviderService.Attach": (ATTACH,),
}


def scopes_of(method: MethodDescriptor) -> tuple[str, ...]:
    """What a method asks for; raises KeyError for one that nobody decided about."""
    return SCOPES[f"{method.containing_service.name}.{method.name}"]


def authorize(caller: Caller, wanted: tuple[str, ...]) -> None:
    """Raise PermissionDenied unless the caller holds one of the scopes."""
    if ATTACH in wanted:
        caller.require_attach()
    elif ANYBODY not in wanted and not any(caller.may(one) for one in wanted):
        raise PermissionDenied(f"scope {wanted[0]} is required", {"scope": wanted[0]})
