//! The input of nodes and branches of a dynamic graph.

use std::{any::Any, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    context::task::TaskContext,
    goto::Payload,
    json::{field_kind::JsonFieldKind, state::JsonState},
    node::erased::TaskInput,
};

/// The input of a node or branch of a dynamic graph.
#[derive(Clone, Debug)]
pub struct JsonInput {
    source: Source,
    reads: Option<Arc<Vec<String>>>,
    computed: Map<String, Value>,
    /// Values that the branch's node returned and that are not visible in the state. Empty in the input of a node.
    pub(super) extra: Map<String, Value>,
}

#[derive(Clone, Debug)]
enum Source {
    State(Arc<JsonState>),
    Payload(Arc<Value>),
}

impl JsonInput {
    /// Returns a field of the state, or of the payload that was sent to the node.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let own = match &self.source {
            Source::Payload(payload) => return payload.get(field),
            Source::State(state) if self.is_visible(field) => state.get(field),
            Source::State(_) => None,
        };
        own.or_else(|| self.computed.get(field)).or_else(|| self.extra.get(field))
    }

    /// Returns the typed copy of a field's value that the field's [reducer](crate::json::JsonReducer) keeps.
    ///
    /// Returns `None` if the value has not been reduced since it was last replaced as a whole, for example by loading a
    /// checkpoint. The caller must then decode the value.
    pub fn decoded<T: Any + Send + Sync>(&self, field: &str) -> Option<Arc<T>> {
        match &self.source {
            Source::State(state) if self.is_visible(field) => state.decoded(field),
            Source::State(_) | Source::Payload(_) => None,
        }
    }

    /// Returns the whole input: the fields that have a value as an object, or the payload.
    pub fn to_value(&self) -> Value {
        match &self.source {
            Source::Payload(payload) => Value::clone(payload),
            Source::State(state) => {
                let Value::Object(mut all) = state.object(|it| self.is_visible(&it.name)) else {
                    return Value::Null;
                };
                all.extend(self.computed.clone());
                all.extend(self.extra.clone());
                Value::Object(all)
            }
        }
    }

    pub(super) fn is_visible(&self, field: &str) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.iter().any(|it| it == field))
    }

    pub(super) fn of_state(
        state: Arc<JsonState>,
        reads: Option<Arc<Vec<String>>>,
        remaining: i64,
    ) -> Self {
        let mut computed = Map::new();
        for (name, kind) in &state.schema.inner.computed {
            if reads.as_ref().is_none_or(|reads| reads.contains(name)) {
                let value = match kind {
                    JsonFieldKind::IsLastStep => Value::from(remaining == 1),
                    _ => Value::from(remaining),
                };
                computed.insert(name.clone(), value);
            }
        }
        Self { source: Source::State(state), reads, computed, extra: Map::new() }
    }
}

/// Converts a task's input into the input of a dynamic node, or returns `None` if the payload cannot be serialised.
pub(super) fn json_input(
    input: &TaskInput,
    reads: Option<Arc<Vec<String>>>,
    cx: &TaskContext,
) -> Option<JsonInput> {
    match input {
        TaskInput::State(state) => {
            let state = state.clone().downcast::<JsonState>().ok()?;
            Some(JsonInput::of_state(state, reads, cx.step.remaining()))
        }
        TaskInput::Payload(payload) => payload_input(payload),
    }
}

fn payload_input(payload: &Payload) -> Option<JsonInput> {
    let payload = match payload {
        Payload::Json(value) => value.clone(),
        typed @ Payload::Typed(_) => Arc::new(typed.to_json().ok()?),
    };
    Some(JsonInput {
        source: Source::Payload(payload),
        reads: None,
        computed: Map::new(),
        extra: Map::new(),
    })
}
