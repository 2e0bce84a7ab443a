//! Journaled calls of a task.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::TaskContext;
use crate::{
    checkpoint::{
        record::{TaskEvent, TaskRecord},
        stored::{CheckpointKey, CheckpointWrite},
    },
    context::ahead::RecordTarget,
    effects::{DivergenceError, EffectCall, EffectDecision, Interceptor, RecordedError},
    error::NodeError,
    state::limits,
    stream::{EventKind, StreamMode},
    sync::lock,
};

impl TaskContext {
    /// Asks the effect interceptor, if there is one, for a recorded result of the call.
    pub(in crate::context) async fn intercept_call(
        &self,
        key: &str,
    ) -> Result<Option<Value>, NodeError> {
        let Some(effects) = &self.scope.settings.effects else { return Ok(None) };
        let task_path = self.task_path();
        let call = EffectCall { task_path: &task_path, key };
        let decision = match effects {
            Interceptor::Local(effects) => effects.before_call(call),
            Interceptor::Remote(effects) => effects.before_call(call).await?,
        };
        match decision {
            EffectDecision::Execute => Ok(None),
            EffectDecision::Return(value) => Ok(Some(value)),
            EffectDecision::Fail { error, terminal: true } => {
                Err(NodeError::terminal(RecordedError(error)))
            }
            EffectDecision::Fail { error, terminal: false } => Err(RecordedError(error).into()),
            EffectDecision::Diverge(problem) => Err(NodeError::terminal(DivergenceError {
                task_path,
                key: key.to_owned(),
                problem,
            })),
        }
    }

    /// Reports the result of a call to the effect interceptor.
    pub(in crate::context) async fn report_call(
        &self,
        key: &str,
        outcome: Result<&Value, &NodeError>,
    ) {
        let Some(effects) = &self.scope.settings.effects else { return };
        // A call that raised an interrupt has no result yet.
        if outcome.is_err_and(|it| it.source().is_none()) {
            return;
        }
        let task_path = self.task_path();
        let call = EffectCall { task_path: &task_path, key };
        match effects {
            Interceptor::Local(effects) => effects.after_call(call, outcome),
            Interceptor::Remote(effects) => effects.after_call(call, outcome).await,
        }
    }

    pub(in crate::context) async fn emit_effect(&self, key: &str, result: &Value, known: bool) {
        if self.scope.events.as_ref().is_some_and(|it| it.accepts(StreamMode::Effects)) {
            let kind = EventKind::Effect { key: key.to_owned(), result: result.clone(), known };
            self.send_event(kind).await;
        }
    }

    /// Returns the key of a journaled call, prefixed with the call's name, and takes the smallest number that no equal
    /// call of this attempt has taken.
    pub(in crate::context) fn number_call(
        &self,
        name: &str,
        key: &impl Serialize,
    ) -> Result<(String, u32), NodeError> {
        let key = format!("{name}:{}", serde_json::to_value(key).map_err(NodeError::terminal)?);
        let number = self.with_memory(|it| it.calls.entry(key.clone()).or_default().take());
        Ok((key, number))
    }

    /// Makes the number of a call available to the next equal call.
    pub(in crate::context) fn release_call_number(&self, key: &str, number: u32) {
        self.with_memory(|it| {
            if let Some(numbers) = it.calls.get_mut(key) {
                numbers.release(number);
            }
        });
    }

    pub(in crate::context) fn journaled(&self, key: &str) -> Option<Value> {
        lock(&self.memory).as_ref().and_then(|it| it.journal.get(key).cloned())
    }

    pub(crate) async fn journal(&self, key: String, result: Value) -> Result<(), NodeError> {
        self.with_memory(|it| drop(it.journal.insert(key.clone(), result.clone())));
        if let Some(host) = &self.scope.host {
            limits::check_storable(&key, &result, self.scope.max_stored_bytes)
                .map_err(NodeError::terminal)?;
            return host.record_effect(&key, &result).await;
        }
        if let Some(writer) = &self.scope.writer {
            limits::check_storable(&key, &result, self.scope.max_stored_bytes)
                .map_err(NodeError::terminal)?;
            let record = self.record(TaskEvent::Effect { key, result });
            let key = self.checkpoint_key();
            if let Some((id, Some(next))) = self.scope.record_target.as_ref().map(RecordTarget::get)
            {
                let keys = [id, next].map(|id| CheckpointKey { id, ..key.clone() });
                let write = |key| CheckpointWrite::Record(key, vec![record.clone()]);
                writer.write(keys.map(write).into()).await?;
                writer.flush().await?;
            } else {
                writer.record_now(key, vec![record]).await?;
            }
        }
        Ok(())
    }

    /// Returns the results in the journal.
    pub(crate) fn effects(&self) -> BTreeMap<String, Value> {
        lock(&self.memory).as_ref().map(|it| it.journal.clone()).unwrap_or_default()
    }

    /// Returns records of the effects in the journal.
    pub(crate) fn effect_records(&self) -> Vec<TaskRecord> {
        let event = |(key, result)| self.record(TaskEvent::Effect { key, result });
        self.effects().into_iter().map(event).collect()
    }
}
