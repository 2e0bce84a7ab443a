//! Telling what happens while it does, and keeping it for the state.

use graph_core::Context;

use super::Deps;
use crate::{
    config::Persona,
    event::{Layer, PipelineEvent},
};

/// What a node has told.
pub(super) struct Telling<'a> {
    cx: &'a Context<Deps>,
    told: Vec<PipelineEvent>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(cx: &'a Context<Deps>) -> Self {
        Self { cx, told: Vec::new() }
    }

    pub(super) async fn tell(&mut self, event: PipelineEvent) {
        self.cx.emit(&event).await;
        self.told.push(event);
    }

    pub(super) async fn begins(&mut self, layer: Layer, persona: &Persona) {
        let (agent_id, persona) = (persona.id.clone(), persona.name.clone());
        self.tell(PipelineEvent::AgentStart { layer, agent_id, persona }).await;
    }

    pub(super) async fn done(&mut self, layer: Layer, persona: &Persona, outputs: Vec<String>) {
        let output = outputs.first().cloned().unwrap_or_default();
        let agent_id = persona.id.clone();
        self.tell(PipelineEvent::AgentComplete { layer, agent_id, output, outputs }).await;
    }

    pub(super) async fn failed(&mut self, layer: Layer, persona: &Persona, reason: &str) {
        let (agent_id, reason) = (persona.id.clone(), reason.to_owned());
        self.tell(PipelineEvent::AgentFailed { layer, agent_id, reason }).await;
    }

    pub(super) fn told(self) -> Vec<PipelineEvent> {
        self.told
    }
}
