"""Which APIs the controller answers: what each of them plans, and who may ask."""

from __future__ import annotations

from typing import Final

from quorumd.controller.alter_partition import plan_alter_partition
from quorumd.controller.broker_heartbeat import plan_broker_heartbeat, record_heartbeat
from quorumd.controller.broker_registration import (
    plan_broker_registration,
    plan_unregister_broker,
    renew_session,
)
from quorumd.controller.controller_registration import (
    plan_controller_registration,
    plan_unregister_controller,
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
from quorumd.controller.topic_creation import plan_create_topics
from quorumd.controller.topic_deletion import plan_delete_topics
from quorumd.node.api.authorization import may_act_for_cluster, may_alter_cluster, may_describe_cluster
from quorumd.node.api.controller import ControllerApi
from quorumd.protocol.apis import ApiKey

CONTROLLER_APIS: Final[dict[int, ControllerApi]] = {
    ApiKey.BROKER_REGISTRATION: ControllerApi(
        plan_broker_registration,
        may_act_for_cluster,
        too_large_error=None,
        on_request=renew_session,
        records_offset=True,
    ),
    ApiKey.BROKER_HEARTBEAT: ControllerApi(
        plan_broker_heartbeat,
        may_act_for_cluster,
        too_large_error=None,
        on_request=record_heartbeat,
        needs_read_confirmation=False,
    ),
    ApiKey.UNREGISTER_BROKER: ControllerApi(plan_unregister_broker, may_alter_cluster, too_large_error=None),
    ApiKey.CONTROLLER_REGISTRATION: ControllerApi(plan_controller_registration, may_act_for_cluster),
    ApiKey.UNREGISTER_CONTROLLER: ControllerApi(plan_unregister_controller, may_alter_cluster),
    ApiKey.ALTER_PARTITION: ControllerApi(
        plan_alter_partition, may_act_for_cluster, is_connection_ordered=True
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ControllerApi(plan_assign_replicas_to_dirs, may_act_for_cluster),
    ApiKey.ALLOCATE_PRODUCER_IDS: ControllerApi(plan_allocate_producer_ids, may_act_for_cluster),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ControllerApi(
        plan_alter_partition_reassignments, may_alter_cluster
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ControllerApi(
        plan_list_partition_reassignments, may_describe_cluster
    ),
    ApiKey.CREATE_TOPICS: ControllerApi(plan_create_topics, may_alter_cluster),
    ApiKey.DELETE_TOPICS: ControllerApi(plan_delete_topics, may_alter_cluster),
    ApiKey.CREATE_PARTITIONS: ControllerApi(plan_create_partitions, may_alter_cluster),
    ApiKey.ELECT_LEADERS: ControllerApi(plan_elect_leaders, may_alter_cluster),
    ApiKey.UPDATE_FEATURES: ControllerApi(plan_update_features, may_alter_cluster),
}
