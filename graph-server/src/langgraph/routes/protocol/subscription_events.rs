//! The events of the subscriptions of one WebSocket, in one sequence.
//!
//! Clients stop reading their subscriptions when they receive the end of a run, until an event with a greater number
//! arrives. An event that is sent after the end of its run would therefore be lost, unless its number is greater.

use std::{
    future::poll_fn,
    mem,
    task::{Context, Poll},
};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::task::coop::unconstrained;

use crate::langgraph::{
    manager::ProtocolEvents,
    stream::{encode::WireEvent, sse::EventSource},
};

/// The subscriptions of a connection. Clients drop events that they receive through several of them.
#[derive(Default)]
pub(super) struct SubscriptionEvents {
    subscriptions: Vec<Subscription>,
    /// Number of the latest end of a run that was sent.
    last_end: u64,
}

struct Subscription {
    id: String,
    events: BoxStream<'static, WireEvent>,
    /// The next event, if it is available.
    next: Option<WireEvent>,
}

impl SubscriptionEvents {
    /// Adds a subscription.
    pub(super) fn add(&mut self, id: String, events: ProtocolEvents) {
        let events = stream::unfold(events, |mut events| async move {
            let event = events.next().await?;
            Some((event, events))
        });
        self.subscriptions.push(Subscription { id, events: events.boxed(), next: None });
    }

    /// Removes a subscription. Returns `false` if it does not exist.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let count = self.subscriptions.len();
        self.subscriptions.retain(|it| it.id != id);
        self.subscriptions.len() < count
    }

    /// Returns whether a subscription exists.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.subscriptions.iter().any(|it| it.id == id)
    }

    /// Returns the number of subscriptions.
    pub(super) fn n_subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Waits for the next event of any subscription. Returns `None` if the server is shutting down.
    pub(super) async fn next(&mut self) -> Option<Value> {
        // Without `unconstrained`, Tokio reports an available event as pending once the task has exhausted its
        // cooperative budget.
        let event = unconstrained(poll_fn(|context| self.poll_earliest(context))).await?;
        Some(self.number(event))
    }

    /// Returns the available event with the smallest number.
    fn poll_earliest(&mut self, context: &mut Context<'_>) -> Poll<Option<WireEvent>> {
        // An event that becomes available in the meantime can be earlier than those that were read, so subscriptions
        // without an event are polled again.
        let mut has_read = true;
        while mem::take(&mut has_read) {
            for subscription in self.subscriptions.iter_mut().filter(|it| it.next.is_none()) {
                match subscription.events.poll_next_unpin(context) {
                    Poll::Ready(Some(event)) => subscription.next = Some(event),
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Pending => continue,
                }
                has_read = true;
            }
        }
        let available = self.subscriptions.iter_mut().filter(|it| it.next.is_some());
        let earliest = available.min_by_key(|it| it.next.as_ref().map(|event| event.id));
        match earliest.and_then(|it| it.next.take()) {
            Some(event) => Poll::Ready(Some(event)),
            None => Poll::Pending,
        }
    }

    /// Encodes an event. An event can follow the end of its run, because its subscription was added later. Clients do
    /// not read such an event under its own number, so it gets the number after the latest end, which no other event
    /// has. The statuses of the run and the interrupts keep their numbers, because clients use them to recognise
    /// outdated events.
    fn number(&mut self, event: WireEvent) -> Value {
        let WireEvent { id: (number, _), event: method, mut data } = event;
        let params = &data["params"];
        let is_status = method == "lifecycle" && params["namespace"] == json!([]);
        if is_status && params["data"]["event"] != "running" {
            self.last_end = self.last_end.max(number);
        }
        if number < self.last_end && !is_status && method != "input.requested" {
            data["seq"] = json!(self.last_end + 1);
        }
        data
    }
}
