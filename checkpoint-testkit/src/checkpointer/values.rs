//! Unusual values: any JSON value is read back unchanged.

use graph_core::checkpoint::{Change, HistoryQuery};
use serde_json::{Value, json};

use super::support::*;

checks! {
    "values: null is a value, not an absent field" => kept(json!(null)),
    "values: booleans are kept" => kept(json!([true, false])),
    "values: an empty text is kept" => kept(json!("")),
    "values: an empty list is kept" => kept(json!([])),
    "values: an empty map is kept" => kept(json!({})),
    "values: unicode text is kept" => kept(json!("Zoë, 你好, 👩‍👩‍👧, e\u{301}, \u{10ffff}")),
    "values: control characters are kept" => kept(json!("\t\r\n\u{1}\u{7f}\u{2028}\u{feff}")),
    "values: a NUL in a text is kept" => kept(json!({"a\u{0}b": "c\u{0}d"})),
    "values: quotes and backslashes are kept" => kept(json!("'; DROP TABLE x; -- \"\\\" \\u0041 %_?$1")),
    "values: text that looks like JSON stays text" => kept(json!(["null", "1", "{}", "[1]", "true"])),
    "values: leading and trailing spaces are kept" => kept(json!("  a  ")),
    "values: the largest integers are kept" => kept(json!([u64::MAX, i64::MAX, 9_007_199_254_740_993_u64])),
    "values: the smallest integers are kept" => kept(json!([i64::MIN, -9_007_199_254_740_993_i64, -1, 0])),
    "values: floats keep full precision" =>
        kept(json!([0.1, 0.1 + 0.2, 1.0 / 3.0, -2.5e-7, 4.35, 0.000_1, 123_456_789.123_456_79])),
    "values: extreme floats are kept" =>
        kept(json!([1e308, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324])),
    "values: an integral float does not become an integer" => kept(json!([1.0, 0.0, -3.0, 1e15, 1e20])),
    "values: maps 100 levels deep are kept" => kept(nested(|it| json!({"in": it}))),
    "values: lists 100 levels deep are kept" => kept(nested(|it| json!([it]))),
    "values: a text of 1 MiB is kept" => kept(json!("ä".repeat(512 * 1024))),
    "values: a list of 10,000 items is kept" => kept((0..10_000).map(Value::from).collect()),
    "values: a map of 10,000 entries is kept" =>
        kept((0..10_000).map(|n| (format!("key {n}"), Value::from(n))).collect()),
    "values: unusual keys are kept" => kept(json!({
        "": 1, "a.b": 2, "a": {"b": 3}, "$.x": 4, "a/b": 5, "a[0]": 6, "\"": 7, "ключ": 8, " ": 9, "A": 10
    })),
    "values: unusual field names are kept" => field_names(),
    "values: field names are case-sensitive" => field_case(),
    "values: unusual items are appended unchanged" => in_extend(),
    "values: unusual entries are merged unchanged" => in_merge(),
    "values: unusual values are kept in records" => in_records(),
    "values: unusual values are kept in metadata" => in_metadata(),
    "values: unusual values are kept in pending payloads" => in_sends(),
}

async fn kept(saver: Saver, value: Value) -> CheckResult {
    let id = first().set("field", value.clone()).put(&saver).await?;
    // The value must also survive a later checkpoint that does not change it.
    let next = after(id).set("other", 1).put(&saver).await?;
    expect_values(&saver, id, json!({"field": &value})).await?;
    expect_values(&saver, next, json!({"field": &value, "other": 1})).await
}

fn nested(wrap: impl Fn(Value) -> Value) -> Value {
    (0..100).fold(json!("core"), |inner, _| wrap(inner))
}

/// Returns unusual values of many kinds.
fn odd() -> Vec<Value> {
    vec![
        json!(null),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.1),
        json!(1e308),
        json!(1.0),
        json!(""),
        json!("\u{0}\"\\👩‍👩‍👧"),
        json!({"a.b": {"": [[], {}]}}),
    ]
}

async fn field_names(saver: Saver) -> CheckResult {
    let names = ["", "a.b", "a", "$", "имя", "with space", "'\"`", "%", "_", "a:b", "a\nb"];
    let draft = names.iter().fold(first(), |draft, name| draft.extend(name, [*name]));
    let id = draft.put(&saver).await?;
    let draft = names.iter().fold(after(id), |draft, name| draft.extend(name, [1]));
    let id = draft.put(&saver).await?;
    let expected = names.map(|name| (name.to_owned(), json!([name, 1])));
    expect_values(&saver, id, expected.into_iter().collect()).await
}

async fn field_case(saver: Saver) -> CheckResult {
    let id = first().set("name", 1).set("Name", 2).put(&saver).await?;
    let id = after(id).set("NAME", 3).put(&saver).await?;
    expect_values(&saver, id, json!({"name": 1, "Name": 2, "NAME": 3})).await
}

async fn in_extend(saver: Saver) -> CheckResult {
    let id = first().extend("list", odd()).put(&saver).await?;
    let put = odd().into_iter().rev().enumerate().collect();
    let next = after(id).change("list", Change::Put(put)).put(&saver).await?;
    expect_values(&saver, id, json!({"list": odd()})).await?;
    expect_values(&saver, next, json!({"list": odd().into_iter().rev().collect::<Vec<_>>()})).await
}

async fn in_merge(saver: Saver) -> CheckResult {
    let entries: Value = odd().into_iter().map(|it| (it.to_string(), it)).collect();
    let id = first().merge("map", json!({"k": 1})).put(&saver).await?;
    let id = after(id).merge("map", entries.clone()).put(&saver).await?;
    let mut expected = object(entries);
    expected.insert("k".to_owned(), json!(1));
    expect_values(&saver, id, json!({"map": expected})).await
}

async fn in_records(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    let records: Vec<_> =
        odd().into_iter().map(|it| record(&it.to_string(), effect(&it.to_string(), it))).collect();
    saver.record(&key(id), records.clone()).await?;
    expect_eq("the records", read(&saver, id).await?.records, records)
}

async fn in_metadata(saver: Saver) -> CheckResult {
    let metadata: Value = odd().into_iter().map(|it| (format!("k.{it}"), it)).collect();
    let id = first().metadata(metadata.clone()).put(&saver).await?;
    expect_eq("the metadata", read(&saver, id).await?.header.metadata, object(metadata.clone()))?;
    let query = HistoryQuery { metadata: object(metadata), ..history() };
    expect_eq("the checkpoints found by metadata", ids(&saver, &query).await?, vec![id])
}

async fn in_sends(saver: Saver) -> CheckResult {
    let mut draft = first();
    let sends = odd().into_iter().map(|it| json!({"node": "n", "payload": it}));
    draft.0.frontier = frontier(json!({"sends": sends.collect::<Value>()}));
    saver.put(draft.0.clone()).await?;
    expect_eq("the sends", read(&saver, draft.id()).await?.frontier, draft.0.frontier)
}
