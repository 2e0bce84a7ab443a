//! Runs the tasks of a graph as if they were in another process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use graph_core::{
    CompiledGraph, JsonState, NodeError,
    remote::{
        EffectRecorder, RemoteTaskCall, RemoteTaskHost, RemoteTaskOutcome, RemoteTaskRunner,
        TaskPlacement,
    },
};
use serde_json::Value;

/// Runs all tasks through their serialised form.
#[derive(Debug)]
pub(crate) struct Loopback {
    pub(crate) graph: CompiledGraph<JsonState>,
}

#[async_trait]
impl RemoteTaskRunner for Loopback {
    fn accepts(&self, _: TaskPlacement<'_>) -> bool {
        true
    }

    async fn run(&self, call: RemoteTaskCall) -> Result<RemoteTaskOutcome, NodeError> {
        let start = serde_json::from_str(&serde_json::to_string(call.start())?)?;
        let recorder = Arc::new(Recorder::default());
        let host = RemoteTaskHost { effects: BTreeMap::new(), recorder: recorder.clone() };
        let mut run = self.graph.run_remote_task(start, (), host);
        while let Some(event) = run.next().await {
            call.forward(event).await;
        }
        let outcome = serde_json::to_string(&run.finish().await)?;
        let effects =
            std::mem::take(&mut *recorder.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (key, result) in effects {
            call.record_effect(key, result).await?;
        }
        Ok(serde_json::from_str(&outcome)?)
    }
}

#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<(String, Value)>>);

#[async_trait]
impl EffectRecorder for Recorder {
    async fn record_effect(&self, key: &str, result: &Value) -> Result<(), NodeError> {
        let mut effects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        effects.push((key.to_owned(), result.clone()));
        Ok(())
    }
}
