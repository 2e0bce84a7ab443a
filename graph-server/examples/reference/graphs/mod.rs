//! The graphs of the reference server.

mod approval;
mod chat;
mod ctx;
mod fail;
mod fanout;
mod parent;
mod route;
mod slow;
mod support;
mod tiny;

use graph_server::langgraph::Graphs;

use self::support::Result;

/// Adds all graphs.
pub(crate) fn add_all(graphs: Graphs) -> Result<Graphs> {
    let adds = [
        tiny::add,
        approval::add,
        fanout::add,
        parent::add,
        chat::add,
        slow::add,
        fail::add,
        ctx::add,
        route::add,
    ];
    adds.into_iter().try_fold(graphs, |graphs, add| add(graphs))
}
