//! Graphs with a JSON state: errors that the type system does not prevent.

use graph_core::{
    CachePolicy, Command, Goto, Input, JsonFieldKind, JsonStateSchema, MemoryCache, NodeExt,
    NodePanicError, Persistence, START,
    checkpoint::Source,
    json::{json_node, json_subgraph},
};
use serde_json::{Value, json};

use crate::support::thread_of;

fn schema() -> JsonStateSchema {
    JsonStateSchema::new([("log", JsonFieldKind::Append), ("n", JsonFieldKind::Sum)])
        .expect("field names are unique")
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_a_node_error() {
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_node("a", |input, _| {
            let missing = input.get("nothing").expect("no such field").clone();
            async move { Ok(missing) }
        }))
        .edge(START, "a")
        .compile()
        .unwrap();
    let error = graph.invoke(schema.input(json!({})).unwrap(), ()).await.unwrap_err();
    assert!(error.node_error::<NodePanicError>().is_some(), "{error}");
}

#[tokio::test]
async fn an_update_of_another_schema_is_matched_by_field_name() {
    // The child's schema declares the fields in a different order from the parent's schema.
    let child =
        JsonStateSchema::new([("n", JsonFieldKind::Sum), ("log", JsonFieldKind::Append)]).unwrap();
    let inner = {
        let child = child.clone();
        json_node("leave", move |_, _| {
            let update = child.update(json!({"log": ["from inside"]}));
            async move { Ok(Command::parent::<graph_core::JsonState>(update?, Vec::<Goto>::new())) }
        })
    };
    let inner = child.graph().node(inner).edge(START, "leave").compile().unwrap();
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_subgraph("inside", &inner, Persistence::Invocation))
        .edge(START, "inside")
        .compile()
        .unwrap();
    let output = graph.invoke(schema.input(json!({})).unwrap(), ()).await.unwrap();
    assert_eq!(output.to_value(), json!({"log": ["from inside"], "n": 0}));
}

#[tokio::test]
async fn a_shared_cache_separates_graphs() {
    let (schema, cache) = (schema(), MemoryCache::new());
    let graph = |name: &str| {
        let text = name.to_owned();
        let node = json_node("fetch", move |_, _| {
            let text = text.clone();
            async move { Ok(json!({ "log": [text] })) }
        });
        schema
            .graph()
            .name(name)
            .node(node.cache(CachePolicy::new()))
            .edge(START, "fetch")
            .cache(cache.clone())
            .compile()
            .unwrap()
    };
    let mut logs = Vec::new();
    for name in ["one", "two", "one"] {
        let state = graph(name).invoke(schema.input(json!({})).unwrap(), ()).await.unwrap();
        logs.push(state.get("log").cloned().unwrap_or(Value::Null));
    }
    assert_eq!(logs, [json!(["one"]), json!(["two"]), json!(["one"])]);
}

#[tokio::test]
async fn a_value_nested_a_million_levels_is_an_error() {
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_node("deep", |_, _| async {
            let deep = (0..1_000_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            let mut update = serde_json::Map::new();
            update.insert("log".to_owned(), deep);
            Ok(Value::Object(update))
        }))
        .edge(START, "deep")
        .compile()
        .unwrap();
    let error = graph.invoke(schema.input(json!({})).unwrap(), ()).await.unwrap_err();
    assert!(error.to_string().contains("nested deeper than"), "{error}");
}

#[tokio::test]
async fn a_value_too_large_to_be_stored_fails_only_its_task() {
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_node("small", |_, _| async { Ok(json!({"n": 1})) }))
        .node(json_node("large", |_, _| async { Ok(json!({"log": ["x".repeat(5_000)]})) }))
        .edge(START, "small")
        .edge(START, "large")
        .max_stored_bytes(1_000);
    let thread = thread_of(graph, &());
    let error = thread.run(schema.input(json!({})).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("field `log`: the value takes about"), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.next, ["large"], "the writes of its sibling are kept");
    assert_eq!(state.values.get("n"), Some(&json!(1)));
}

#[tokio::test]
async fn command_writes_are_stored_with_the_next_input() {
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_node("a", |_, _| async { Ok(json!({"log": ["a"]})) }))
        .edge(START, "a");
    let thread = thread_of(graph, &());
    let input = |it: Value| schema.input(it).unwrap();
    assert!(thread.run(input(json!({"log": ["in"]}))).await.unwrap().is_done());
    let command = schema.update(json!({"log": ["cmd"]})).unwrap();
    assert!(thread.run(Input::command().with_update(command)).await.unwrap().is_done());
    assert!(thread.run(input(json!({"log": ["again"]}))).await.unwrap().is_done());
    let history = thread.history(None).await.unwrap();
    let stored = history.iter().find(|it| it.source == Source::Input).unwrap();
    assert_eq!(stored.values.get("log"), Some(&json!(["in", "a", "cmd"])));
    assert_eq!(history[0].values.get("log"), Some(&json!(["in", "a", "cmd", "again", "a"])));
}

#[tokio::test]
async fn an_input_too_large_to_be_stored_is_rejected() {
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_node("a", |_, _| async { Ok(()) }))
        .edge(START, "a")
        .max_stored_bytes(1_000);
    let thread = thread_of(graph, &());
    let input = schema.input(json!({"log": ["x".repeat(5_000)]})).unwrap();
    let error = thread.run(input).await.unwrap_err();
    assert!(error.to_string().contains("more than the limit of 1000"), "{error}");
    assert!(thread.state().await.unwrap().is_none());
}

#[tokio::test]
async fn a_thread_stays_usable_after_a_reducer_has_rejected_its_input() {
    let schema = schema();
    let graph = schema
        .graph()
        .node(json_node("a", |_, _| async { Ok(json!({"log": ["a"]})) }))
        .edge(START, "a");
    let thread = thread_of(graph, &());
    let input = |it: Value| schema.input(it).unwrap();
    // The first field is valid, but none of the input is applied.
    let error = thread.run(input(json!({"log": ["in"], "n": "text"}))).await.unwrap_err();
    assert!(error.to_string().contains("`n`"), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.values.to_value(), json!({"log": [], "n": 0}));
    let outcome = thread.run(input(json!({"n": 2}))).await.unwrap();
    assert_eq!(outcome.state().to_value(), json!({"log": ["a"], "n": 2}));
}
