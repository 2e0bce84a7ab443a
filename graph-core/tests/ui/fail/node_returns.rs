//! Nodes that are not async, or that return what a graph cannot use.

use graph_core::{Command, END, NodeExt, Route, START, State, StateGraph, named};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(State, Clone, Default)]
struct Report {
    title: String,
}

fn graph() -> StateGraph<Essay> {
    StateGraph::new()
}

/// A node must be async.
fn not_async() {
    fn review(_: &Essay) -> EssayUpdate {
        Essay::update()
    }
    let _ = graph().node(review).edge(START, "review");
}

/// A node with options must be async.
fn configured_not_async() {
    fn review(_: &Essay) -> EssayUpdate {
        Essay::update()
    }
    let _ = graph().node(review.retry(2)).edge(START, "review");
}

/// A named closure must be async.
fn named_not_async() {
    let review = named("review", |_: &Essay| Essay::update());
    let _ = graph().node(&review).edge(START, &review);
}

/// An error handler must be async.
fn handler_not_async() {
    async fn review(_: &Essay) -> EssayUpdate {
        Essay::update()
    }
    fn apologize(_: &Essay) -> EssayUpdate {
        Essay::update()
    }
    let _ = graph().node(review.on_error(apologize)).edge(START, "review");
}

/// A node must return the update of its graph's state.
fn other_update() {
    async fn review(_: &Essay) -> ReportUpdate {
        Report::update()
    }
    let _ = graph().node(review).edge(START, "review");
}

/// A node with options returns an update of its state.
fn configured_other_update() {
    async fn review(_: &Essay) -> String {
        String::new()
    }
    let _ = graph().node(review.retry(2)).edge(START, "review");
}

/// A named closure returns an update of its state.
fn named_other_update() {
    let review = named("review", async |_: &Essay| 1);
    let _ = graph().node(&review).edge(START, &review);
}

/// A node must return an update, not the state.
fn return_state() {
    async fn review(essay: &Essay) -> Essay {
        essay.clone()
    }
    let _ = graph().node(review).edge(START, "review");
}

/// A node must return a supported type. An invalid node is reported once, where it is added, and not again by the edges
/// and routes that lead to it.
fn return_type() {
    async fn review(_: &Essay) -> u32 {
        3
    }
    #[derive(Route)]
    enum Next {
        #[to(review)]
        Again,
        #[to(END)]
        Done,
    }
    let next = |essay: &Essay| if essay.topic.is_empty() { Next::Again } else { Next::Done };
    let _ = graph().node(review).edge(START, review).branch(review, next);
}

/// The error of a node must be `Send + Sync`.
fn error_not_send() {
    async fn review(_: &Essay) -> Result<(), Box<dyn std::error::Error>> {
        Ok(())
    }
    let _ = graph().node(review);
}

/// The route of a command must implement `Route`.
fn command_not_a_route() {
    enum Next {
        Review,
    }
    async fn decide(_: &Essay) -> Command<Essay, Next> {
        Essay::update().goto(Next::Review)
    }
    let _ = graph().node(decide).edge(START, "decide");
}

fn main() {}
