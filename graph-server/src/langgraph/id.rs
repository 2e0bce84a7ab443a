//! Ids on the wire: UUIDs of objects, checkpoints and tasks.

use std::fmt;

use graph_core::checkpoint::CheckpointId;
use uuid::Uuid;

use super::error::{ApiError, ApiResult};

/// UUID namespace of system assistants. Clients use the same namespace to compute the ids of system assistants.
const SYSTEM_NAMESPACE: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// Returns a new id. Later ids are greater.
pub(super) fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// Returns the id of the assistant that the server creates for a graph. It is the same in every process.
pub(super) fn system_assistant(graph: &str) -> Uuid {
    Uuid::new_v5(&SYSTEM_NAMESPACE, graph.as_bytes())
}

/// UUID namespace of the threads of conversations.
const CONVERSATION_NAMESPACE: Uuid = Uuid::from_u128(0x5f1c_6d0e_3a52_4b7c_9d5e_8a70_41c2_6fb3);

/// Returns the thread of a conversation. A UUID is the id of the thread itself. Any other id belongs to a thread that
/// depends on the owner of the conversation, so that owners can choose the same ids.
pub(super) fn conversation_thread(owner: Option<&str>, id: &str) -> Uuid {
    Uuid::try_parse(id).unwrap_or_else(|_| {
        let name = format!("{}\n{id}", owner.unwrap_or_default());
        Uuid::new_v5(&CONVERSATION_NAMESPACE, name.as_bytes())
    })
}

/// Parses the id of an object from a path. `what` names the kind of object in the error message.
pub(super) fn parse_id(what: &str, text: &str) -> ApiResult<Uuid> {
    Uuid::try_parse(text)
        .map_err(|_| ApiError::invalid(format!("invalid {what} id `{text}`: it must be a UUID")))
}

/// Formats a checkpoint id or a task id as a UUID.
pub(super) fn wire_id(id: impl fmt::Display) -> String {
    let text = id.to_string();
    Uuid::try_parse(&text).map_or(text, |it| it.hyphenated().to_string())
}

/// Parses a checkpoint id.
pub(super) fn parse_checkpoint(text: &str) -> ApiResult<CheckpointId> {
    let id = Uuid::try_parse(text).ok();
    id.map(|it| CheckpointId::from_bytes(it.into_bytes())).ok_or_else(|| {
        ApiError::invalid(format!("invalid checkpoint id `{text}`: it must be a UUID"))
    })
}

/// Formats the task ids in a namespace such as `child:<task>|grandchild:<task>` as UUIDs.
pub(super) fn wire_namespace(namespace: &str) -> String {
    map_tasks(namespace, |id| wire_id(id))
}

/// Converts a namespace from its form on the wire to the engine's form.
pub(super) fn parse_namespace(namespace: &str) -> String {
    map_tasks(namespace, |id| id.replace('-', ""))
}

fn map_tasks(namespace: &str, map: impl Fn(&str) -> String) -> String {
    let part = |part: &str| match part.split_once(':') {
        Some((node, task)) => format!("{node}:{}", map(task)),
        None => part.to_owned(),
    };
    namespace.split('|').map(part).collect::<Vec<_>>().join("|")
}
