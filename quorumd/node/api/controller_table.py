"""The APIs of the controller, with the planner and the rules of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar, cast

from quorumd.controller.acl_requests import plan_create_acls, plan_delete_acls
from quorumd.controller.alter_partition import plan_alter_partition
from quorumd.controller.broker_heartbeat import plan_broker_heartbeat, record_heartbeat
from quorumd.controller.broker_registration import (
    plan_broker_registration,
    plan_unregister_broker,
    renew_session,
)
from quorumd.controller.client_quotas import plan_alter_client_quotas
from quorumd.controller.config_requests import plan_alter_configs, plan_incremental_alter_configs
from quorumd.controller.controller import Controller
from quorumd.controller.controller_registration import (
    plan_controller_registration,
    plan_unregister_controller,
)
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.delegation_tokens import (
    plan_create_delegation_token,
    plan_expire_delegation_token,
    plan_renew_delegation_token,
)
from quorumd.controller.directories import plan_assign_replicas_to_dirs
from quorumd.controller.elections import plan_elect_leaders
from quorumd.controller.features import plan_update_features
from quorumd.controller.partition_creation import plan_create_partitions
from quorumd.controller.producer_ids import plan_allocate_producer_ids
from quorumd.controller.reassignments import (
    plan_alter_partition_reassignments,
    plan_list_partition_reassignments,
)
from quorumd.controller.request_context import RequestContext
from quorumd.controller.scram_requests import plan_alter_user_scram_credentials
from quorumd.controller.topic_creation import plan_create_topics
from quorumd.controller.topic_deletion import plan_delete_topics
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from quorumd.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from quorumd.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from quorumd.protocol.messages.create_acls_request import CreateAclsRequest
from quorumd.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.messages.update_features_request import UpdateFeaturesRequest
from quorumd.protocol.wire import Message

M = TypeVar("M", bound=Message)
Planner = Callable[[Controller, M, int, RequestContext], ControllerResult]
"""(controller, request message, its version, its context) -> records and response"""


def _without_context(plan: Callable[[Controller, M, int], ControllerResult]) -> Planner[M]:
    """Adapt a planner whose result does not depend on the context of the request."""
    return lambda controller, message, version, context: plan(controller, message, version)


class AppendRules(NamedTuple):
    """How the records of an API are appended."""

    too_large_error: ErrorCode | None = ErrorCode.POLICY_VIOLATION
    """The error if the records exceed one batch; None if they may be appended in several batches (see
    `MetadataWriter.write_batches`)."""
    records_offset: bool = False
    """Whether the records contain their own offset, which is planned: they must be appended at this offset."""


ONE_BATCH: Final = AppendRules()
SEVERAL_BATCHES: Final = AppendRules(too_large_error=None)


class ControllerApi:
    """Describes how one API is handled. `plan` and `on_request` take messages of `request_class`."""

    def __init__(
        self,
        request_class: type[M],
        plan: Planner[M],
        append_rules: AppendRules = ONE_BATCH,
        on_request: Callable[[Controller, M], None] | None = None,
        needs_read_confirmation: bool = True,
        is_connection_ordered: bool = False,
        strict_quota_since: int | None = None,
    ) -> None:
        assert request_class.API_KEY is not None
        self.api_key: int = request_class.API_KEY
        self.request_class: type[Message] = request_class
        # Routes pass only messages of this class.
        self.plan = cast("Planner[Message]", plan)
        self.append_rules = append_rules
        self.on_request = cast("Callable[[Controller, Message], None] | None", on_request)
        """Called by the leader before it plans a request, whatever the result."""
        self.needs_read_confirmation = needs_read_confirmation
        """Whether a response without records is a read, which is sent only if this node still leads."""
        self.is_connection_ordered = is_connection_ordered
        """Whether only requests on the newest connection of their broker are accepted (`alter_partition_order`)."""
        self.strict_quota_since = strict_quota_since
        """The first version whose clients know THROTTLING_QUOTA_EXCEEDED; None if the controller mutation quota does
        not apply to the API."""


_APIS = (
    ControllerApi(
        BrokerRegistrationRequest,
        _without_context(plan_broker_registration),
        AppendRules(too_large_error=None, records_offset=True),
        on_request=renew_session,
    ),
    ControllerApi(
        BrokerHeartbeatRequest,
        _without_context(plan_broker_heartbeat),
        SEVERAL_BATCHES,
        on_request=record_heartbeat,
        needs_read_confirmation=False,
    ),
    ControllerApi(UnregisterBrokerRequest, plan_unregister_broker, SEVERAL_BATCHES),
    ControllerApi(ControllerRegistrationRequest, _without_context(plan_controller_registration)),
    ControllerApi(UnregisterControllerRequest, _without_context(plan_unregister_controller)),
    ControllerApi(AlterPartitionRequest, _without_context(plan_alter_partition), is_connection_ordered=True),
    ControllerApi(AssignReplicasToDirsRequest, _without_context(plan_assign_replicas_to_dirs)),
    ControllerApi(AllocateProducerIdsRequest, _without_context(plan_allocate_producer_ids)),
    ControllerApi(AlterPartitionReassignmentsRequest, _without_context(plan_alter_partition_reassignments)),
    ControllerApi(ListPartitionReassignmentsRequest, _without_context(plan_list_partition_reassignments)),
    ControllerApi(
        IncrementalAlterConfigsRequest,
        plan_incremental_alter_configs,
        AppendRules(ErrorCode.MESSAGE_TOO_LARGE),
    ),
    ControllerApi(
        AlterConfigsRequest,
        plan_alter_configs,
        AppendRules(ErrorCode.MESSAGE_TOO_LARGE),
    ),
    ControllerApi(CreateTopicsRequest, plan_create_topics, strict_quota_since=6),
    ControllerApi(DeleteTopicsRequest, plan_delete_topics, strict_quota_since=5),
    ControllerApi(CreatePartitionsRequest, plan_create_partitions, strict_quota_since=3),
    ControllerApi(ElectLeadersRequest, plan_elect_leaders),
    ControllerApi(UpdateFeaturesRequest, _without_context(plan_update_features)),
    ControllerApi(CreateAclsRequest, _without_context(plan_create_acls)),
    ControllerApi(DeleteAclsRequest, plan_delete_acls),
    ControllerApi(AlterClientQuotasRequest, _without_context(plan_alter_client_quotas)),
    ControllerApi(AlterUserScramCredentialsRequest, _without_context(plan_alter_user_scram_credentials)),
    ControllerApi(CreateDelegationTokenRequest, plan_create_delegation_token),
    ControllerApi(RenewDelegationTokenRequest, plan_renew_delegation_token),
    ControllerApi(ExpireDelegationTokenRequest, plan_expire_delegation_token),
)

CONTROLLER_APIS: Final = {api.api_key: api for api in _APIS}
