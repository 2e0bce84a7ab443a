//! Helper for sending events from a node.

use graph_core::Context;

use super::deps::Deps;
use crate::{
    config::Persona,
    event::{Layer, PipelineEvent},
};

/// Sends a node's events to the engine's custom stream and collects them for the state.
pub(super) struct EventSender<'a> {
    cx: &'a Context<Deps>,
    sent: Vec<PipelineEvent>,
}

impl<'a> EventSender<'a> {
    pub(super) fn new(cx: &'a Context<Deps>) -> Self {
        Self { cx, sent: Vec::new() }
    }

    pub(super) async fn send(&mut self, event: PipelineEvent) {
        self.cx.emit(&event).await;
        self.sent.push(event);
    }

    pub(super) async fn agent_started(&mut self, layer: Layer, persona: &Persona) {
        let (agent_id, persona) = (persona.id.clone(), persona.name.clone());
        self.send(PipelineEvent::AgentStart { layer, agent_id, persona }).await;
    }

    pub(super) async fn agent_completed(
        &mut self,
        layer: Layer,
        persona: &Persona,
        outputs: Vec<String>,
    ) {
        let output = outputs.first().cloned().unwrap_or_default();
        let agent_id = persona.id.clone();
        self.send(PipelineEvent::AgentComplete { layer, agent_id, output, outputs }).await;
    }

    pub(super) async fn agent_failed(&mut self, layer: Layer, persona: &Persona, reason: &str) {
        let (agent_id, reason) = (persona.id.clone(), reason.to_owned());
        self.send(PipelineEvent::AgentFailed { layer, agent_id, reason }).await;
    }

    /// Returns all sent events, in order.
    pub(super) fn into_events(self) -> Vec<PipelineEvent> {
        self.sent
    }
}
