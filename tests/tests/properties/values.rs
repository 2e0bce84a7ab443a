//! Tests of reducers and stored values. Results do not depend on batching, and storing a value does not change it.

use std::sync::Arc;

use graph_core::{
    Command, CompiledGraph, Durability, Goto, JsonFieldKind, JsonState, JsonStateSchema, NodeError,
    RunOptions, RunOutcome, START, Stops,
    checkpoint::{Change, GotoRecord, TaskEvent, TaskId, TaskRecord},
    json::{JsonCommand, JsonReturn, json_node},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Number, Value, json};

use crate::{
    check,
    observe::on,
    saver::{TextSaver, json_round_trip},
};

/// A sequence of writes to one field.
#[derive(Clone, Debug)]
struct Writes {
    kind: JsonFieldKind,
    values: Vec<Value>,
}

fn writes() -> impl Strategy<Value = Writes> {
    let small = || (0..5i64).prop_map(Value::from);
    let whole = || prop_oneof![3 => small(), 1 => any::<i64>().prop_map(Value::from), 1 => any::<u64>().prop_map(Value::from)];
    let object =
        || vec(("[a-d]", small()), 0..4).prop_map(|it| Value::Object(it.into_iter().collect()));
    let row = || (0..4i64, 0..9i64).prop_map(|(id, v)| json!({"id": id, "v": v}));
    let of = |kind: JsonFieldKind, value: BoxedStrategy<Value>| {
        vec(value, 1..7).prop_map(move |values| Writes { kind: kind.clone(), values })
    };
    prop_oneof![
        of(JsonFieldKind::Append, vec(small(), 0..4).prop_map(Value::from).boxed()),
        of(JsonFieldKind::Sum, whole().boxed()),
        of(JsonFieldKind::Max, whole().boxed()),
        of(JsonFieldKind::Min, whole().boxed()),
        of(JsonFieldKind::Merge, object().boxed()),
        of(JsonFieldKind::Concat, "\\PC{0,4}".prop_map(Value::from).boxed()),
        of(JsonFieldKind::Upsert("id".to_owned()), vec(row(), 0..4).prop_map(Value::from).boxed()),
        of(JsonFieldKind::TopicAccumulate, small().boxed()),
    ]
}

/// Builds a graph whose steps write these batches. Each step has either one node per value or one node that returns
/// many updates.
fn batched_graph(
    kind: &JsonFieldKind,
    batches: &[Vec<Value>],
    one_node: bool,
) -> CompiledGraph<JsonState> {
    let schema = JsonStateSchema::new([("field", kind.clone())]).expect("field names are unique");
    let mut graph = schema.graph();
    let mut before: Vec<String> = Vec::new();
    for (step, batch) in batches.iter().enumerate() {
        let groups = match one_node {
            true => vec![batch.clone()],
            false => batch.iter().map(|it| vec![it.clone()]).collect(),
        };
        let mut names = Vec::new();
        for (place, values) in groups.into_iter().enumerate() {
            let name = format!("{step:02}.{place:02}");
            let schema = schema.clone();
            graph = graph.node(json_node(name.clone(), move |_, _| {
                let update = |it: &Value| schema.update(json!({ "field": it }));
                let updates: Result<Vec<_>, _> = values.iter().map(update).collect();
                std::future::ready(updates.map_err(NodeError::terminal).map(|updates| {
                    let command = |it| Command::new(it, Vec::<Goto>::new());
                    JsonReturn::Commands(updates.into_iter().map(command).collect())
                }))
            }));
            graph = match before.is_empty() {
                true => graph.edge(START, name.clone()),
                false => graph.join(before.clone(), name.clone()),
            };
            names.push(name);
        }
        before = names;
    }
    graph.checkpointer(TextSaver::default()).compile().expect("a chain of steps is a valid graph")
}

/// Runs a graph and returns its field twice: as returned by the run, and as loaded from the store.
async fn final_field(graph: CompiledGraph<JsonState>, durability: Durability) -> (String, String) {
    let thread = graph.thread("t", ()).with_options(RunOptions::new().durability(durability));
    let input = JsonStateSchema::new(Vec::<(String, JsonFieldKind)>::new())
        .expect("field names are unique");
    let input = graph_core::Input::update(input.update(json!({})).expect("an object"));
    let events = match thread.run(input).await {
        Ok(exit) => exit.state().to_full_value().to_string(),
        Err(error) => error.to_string(),
    };
    let loaded = thread.state().await.ok().flatten().expect("the thread ran");
    (events, loaded.values.to_full_value().to_string())
}

#[test]
fn reducers_do_not_depend_on_how_writes_are_batched() {
    let strategy = (writes(), vec(any::<bool>(), 7));
    check(64, &strategy, |(Writes { kind, values }, cuts)| {
        let mut batches: Vec<Vec<Value>> = vec![Vec::new()];
        for (value, cut) in values.iter().zip(cuts) {
            match batches.last_mut() {
                Some(last) if !cut || last.is_empty() => last.push(value.clone()),
                _ => batches.push(vec![value.clone()]),
            }
        }
        let single: Vec<_> = values.iter().map(|it| vec![it.clone()]).collect();
        on(None, async {
            let expected =
                final_field(batched_graph(&kind, &single, false), Durability::Sync).await;
            prop_assert_eq!(&expected.0, &expected.1);
            for (batches, one_node) in [
                (&batches, false),
                (&batches, true),
                (&vec![values.clone()], false),
                (&vec![values.clone()], true),
            ] {
                for durability in [Durability::Async, Durability::Exit] {
                    let got =
                        final_field(batched_graph(&kind, batches, one_node), durability).await;
                    prop_assert_eq!(&got, &expected, "{:?} alone: {}", batches, one_node);
                }
            }
            Ok(())
        })
    });
}

/// Generates JSON values with arbitrary strings, extreme numbers and deep nesting.
fn json_values() -> impl Strategy<Value = Value> {
    let float = prop_oneof![
        any::<f64>(),
        Just(f64::MIN_POSITIVE),
        Just(5e-324),
        Just(f64::MAX),
        Just(-0.0),
        Just(0.1 + 0.2),
        Just(1e23),
    ];
    let float =
        float.prop_filter_map("JSON has no infinity", |it| Number::from_f64(it).map(Value::Number));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        Just(Value::from(u64::MAX)),
        Just(Value::from(i64::MIN)),
        float,
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x1f\"\\\\\u{2028}\u{feff}\u{1f600}]{0,5}".prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((any::<String>(), inner), 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect::<Map<_, _>>())),
        ]
    });
    (tree, prop_oneof![3 => Just(0), 1 => 1..51usize], any::<bool>()).prop_map(
        |(tree, depth, lists)| {
            (0..depth).fold(tree, |it, _| if lists { json!([it]) } else { json!({ "in": it }) })
        },
    )
}

/// Builds a graph that passes a value through all kinds of stored data: an input, a field, a payload, an interrupt
/// and an answer.
fn relay(saver: &TextSaver) -> (JsonStateSchema, CompiledGraph<JsonState>) {
    let fields = [
        ("value", JsonFieldKind::Last),
        ("copy", JsonFieldKind::Last),
        ("again", JsonFieldKind::Last),
    ];
    let schema = JsonStateSchema::new(fields).expect("field names are unique");
    let send = json_node("send", |input, _| {
        let value = input.get("value").cloned().unwrap_or_default();
        let way = JsonCommand::goto(vec![Goto::send("ask", value)]);
        std::future::ready(Ok::<_, NodeError>(JsonReturn::from(way)))
    });
    let ask = json_node("ask", |input, cx| {
        let (value, cx): (_, graph_core::Context) = (input.to_value(), cx);
        let answer = cx.interrupt::<Value>(&value);
        std::future::ready(answer.map(|it| json!({"copy": value, "again": it})))
    });
    let graph = schema.graph().node(send).node(ask).edge(START, "send");
    let graph = graph.stop_before(Stops::All).checkpointer(saver.clone());
    (schema, graph.compile().expect("the relay is a valid graph"))
}

async fn round_trip(value: &Value) -> Result<Value, Box<dyn std::error::Error>> {
    let saver = Arc::new(TextSaver::default());
    // A new graph is built for every call, so that all data comes from the saver.
    let options = RunOptions::new().durability(Durability::Sync);
    let thread = || relay(&saver).1.thread("t", ()).with_options(options.clone());
    let (schema, _) = relay(&saver);
    let mut exit = thread().run(schema.input(json!({ "value": value }))?).await?;
    while !exit.is_done() {
        let question = exit.interrupts().first().map(|it| it.value.clone());
        exit = match (&exit, question) {
            (RunOutcome::Interrupted { .. }, Some(question)) => thread().resume(question).await?,
            _ => thread().proceed().await?,
        };
    }
    let state = thread().state().await?.ok_or("the thread ran")?;
    Ok(state.values.to_full_value())
}

#[test]
fn stored_values_are_unchanged() {
    check(96, &json_values(), |value| {
        let expected = json!({"value": value, "copy": value, "again": value});
        let got = on(None, round_trip(&value));
        let got = got.map_err(|error| TestCaseError::fail(error.to_string()))?;
        // Compares the values as text, because a comparison of numbers would not distinguish 0.0 from -0.0.
        prop_assert_eq!(got.to_string(), expected.to_string());
        Ok(())
    });
}

#[test]
fn stored_changes_and_records_are_unchanged() {
    let strategy = (vec(json_values(), 1..4), "[a-z]{0,3}", any::<bool>(), any::<bool>());
    check(64, &strategy, |(values, name, sends, overwrite)| {
        let map: Map<_, _> = values.iter().map(|it| (name.clone(), it.clone())).collect();
        json_round_trip(&Change::Set(values[0].clone()));
        json_round_trip(&Change::Extend(values.clone()));
        json_round_trip(&Change::Put(values.iter().cloned().enumerate().collect()));
        json_round_trip(&Change::Remove((0..values.len()).collect()));
        json_round_trip(&Change::Merge(map));
        let payload = sends.then(|| values[0].clone());
        let gotos = vec![GotoRecord { to: name.clone(), payload }];
        let write = |value: &Value| graph_core::FieldWrite {
            field: name.clone(),
            value: value.clone(),
            overwrite,
        };
        let writes = values.iter().map(write).collect();
        let events = [
            TaskEvent::Done { writes, gotos },
            TaskEvent::Resumed { values: values.clone() },
            TaskEvent::Effect { key: name.clone(), result: values[0].clone() },
        ];
        for event in events {
            json_round_trip(&TaskRecord { task: TaskId::COMMAND, node: name.clone(), event });
        }
        Ok(())
    });
}
