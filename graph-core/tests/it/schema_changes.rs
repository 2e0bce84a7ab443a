//! Threads that were stored before the state or the nodes of their graph changed: they are migrated, or the run fails
//! with an error that names the fix.

use graph_core::{
    AsNode, CompiledGraph, Context, MemorySaver, Migrations, NodeError, RunError, START, State,
    StateGraph,
};
use serde_json::json;

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Chat {
    language: String,
    #[reduce(append)]
    lines: Vec<String>,
}

/// Asserts that the message contains all parts.
#[track_caller]
fn check(error: &RunError, parts: &[&str]) {
    let message = error.to_string();
    assert!(parts.iter().all(|it| message.contains(it)), "{message}");
}

/// Stores a thread that waits for an answer in the node `ask`, and returns its saver.
async fn waiting_thread() -> MemorySaver {
    let saver = MemorySaver::new();
    let thread = asking("ask", saver.clone()).thread("t", ());
    let outcome = thread.run(Chat::default()).await.expect("no node fails");
    assert_eq!(outcome.interrupts().len(), 1);
    saver
}

fn asking(node: &'static str, saver: MemorySaver) -> CompiledGraph<Chat> {
    let ask = async |_: &Chat, cx: &Context| {
        Ok::<_, NodeError>(Chat::update().lines([cx.interrupt::<String>("name?")?]))
    };
    StateGraph::<Chat>::new()
        .node_as(node, ask)
        .edge(START, node)
        .checkpointer(saver)
        .compile()
        .expect("the graph is valid")
}

#[tokio::test]
async fn an_answer_for_a_removed_node_is_an_error() {
    let saver = waiting_thread().await;
    let thread = asking("question", saver).thread("t", ());
    let error = thread.resume("Ada").await.unwrap_err();
    assert!(matches!(error, RunError::MissingNode { .. }), "{error}");
    check(&error, &["thread `t`", "node `ask`", "nodes are: question", "Migrations::rename_node"]);
    // New input and an edit do not need the missing node.
    assert_eq!(thread.run(Chat::update()).await.unwrap().interrupts().len(), 1);
}

#[tokio::test]
async fn a_renamed_node_receives_its_answer() {
    #[derive(State, Clone, Debug, Default)]
    #[state(version = 2)]
    struct Chat2 {
        language: String,
        #[reduce(append)]
        lines: Vec<String>,
    }
    for by_id in [false, true] {
        let ask = async |_: &Chat2, cx: &Context| {
            Ok::<_, NodeError>(Chat2::update().lines([cx.interrupt::<String>("name?")?]))
        };
        let graph = StateGraph::<Chat2>::new()
            .node_as("question", ask)
            .edge(START, "question")
            .checkpointer(waiting_thread().await)
            .migrations(Migrations::new().rename_node(1, "ask", "question"))
            .compile()
            .unwrap();
        let thread = graph.thread("t", ());
        let state = thread.state().await.unwrap().unwrap();
        let pending = state.interrupts()[0].id.clone();
        let outcome = match by_id {
            false => thread.resume("Ada").await.unwrap(),
            true => thread.resume_by_id([(pending, json!("Ada"))]).await.unwrap(),
        };
        assert_eq!(outcome.state().lines, ["Ada"]);
    }
}

#[tokio::test]
async fn a_renamed_field_is_reported() {
    #[derive(State, Clone, Debug, Default)]
    struct Renamed {
        tongue: String,
        #[reduce(append)]
        lines: Vec<String>,
    }
    let saver = waiting_thread().await;
    let graph = StateGraph::<Renamed>::new()
        .node_as("ask", async |_: &Renamed| ())
        .edge(START, "ask")
        .checkpointer(saver)
        .compile()
        .unwrap();
    for error in [
        graph.thread("t", ()).proceed().await.unwrap_err(),
        graph.thread("t", ()).state().await.unwrap_err(),
    ] {
        check(&error, &["field `language`", "only tongue, lines", "`Migrations::rename`"]);
    }
}

#[tokio::test]
async fn a_changed_reducer_is_reported_until_the_version_increases() {
    #[derive(State, Clone, Debug, Default)]
    struct Replacing {
        language: String,
        lines: Vec<String>,
    }
    #[derive(State, Clone, Debug, Default)]
    #[state(version = 2)]
    struct Accepted {
        language: String,
        lines: Vec<String>,
    }
    let saver = waiting_thread().await;
    let graph = StateGraph::<Replacing>::new()
        .node_as("ask", async |_: &Replacing| ())
        .edge(START, "ask")
        .checkpointer(saver.clone())
        .compile()
        .unwrap();
    for error in [
        graph.thread("t", ()).proceed().await.unwrap_err(),
        graph.thread("t", ()).state().await.unwrap_err(),
    ] {
        check(
            &error,
            &["field `lines`", "reducer `append`", "declares `last`", "`Migrations::retype`"],
        );
    }
    let graph = StateGraph::<Accepted>::new()
        .node_as("ask", async |_: &Accepted| Accepted::update().lines(["new".to_owned()]))
        .edge(START, "ask")
        .checkpointer(saver)
        .compile()
        .unwrap();
    assert_eq!(graph.thread("t", ()).proceed().await.unwrap().state().lines, ["new"]);
}

#[tokio::test]
async fn a_changed_field_type_is_reported() {
    #[derive(State, Clone, Debug, Default)]
    struct Retyped {
        language: u32,
        #[reduce(append)]
        lines: Vec<String>,
    }
    let graph = StateGraph::<Retyped>::new()
        .node_as("ask", async |_: &Retyped| ())
        .edge(START, "ask")
        .checkpointer(waiting_thread().await)
        .compile()
        .unwrap();
    let error = graph.thread("t", ()).proceed().await.unwrap_err();
    let parts = ["`language`", "is a string", "type of the field is `u32`", "`Migrations::retype`"];
    check(&error, &parts);
}

#[tokio::test]
async fn a_removed_field_needs_a_migration() {
    #[derive(State, Clone, Debug, Default)]
    #[state(version = 2)]
    struct Removed {
        #[reduce(append)]
        lines: Vec<String>,
    }
    let graph = StateGraph::<Removed>::new()
        .node_as("ask", async |_: &Removed| Removed::update().lines(["new".to_owned()]))
        .edge(START, "ask")
        .checkpointer(waiting_thread().await)
        .migrations(Migrations::new().remove(1, "language"))
        .compile()
        .unwrap();
    let outcome = graph.thread("t", ()).proceed().await.unwrap();
    assert_eq!(outcome.state().lines, ["new"]);
    // The migrated checkpoint no longer contains the field.
    assert!(graph.thread("t", ()).state().await.unwrap().unwrap().is_done());
}

#[tokio::test]
async fn a_custom_migration_upgrades_pending_input() {
    #[derive(State, Clone, Debug, Default)]
    #[state(version = 2)]
    struct Upper {
        language: String,
        #[reduce(append)]
        lines: Vec<String>,
    }
    let saver = MemorySaver::new();
    let old = asking("ask", saver.clone()).thread("t", ());
    old.update_state(Chat::update().language("french"), AsNode::Input).await.unwrap();
    let migrations = Migrations::new().custom(1, |fields| {
        if let Some(language) = fields.get_mut("language") {
            *language = json!(language.as_str().unwrap_or_default().to_uppercase());
        }
    });
    let graph = StateGraph::<Upper>::new()
        .node_as("ask", async |state: &Upper| Upper::update().lines([state.language.clone()]))
        .edge(START, "ask")
        .checkpointer(saver)
        .migrations(migrations)
        .compile()
        .unwrap();
    let outcome = graph.thread("t", ()).proceed().await.unwrap();
    assert_eq!(outcome.state().lines, ["FRENCH"]);
}
