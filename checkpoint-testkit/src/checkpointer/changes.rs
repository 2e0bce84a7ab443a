//! Changes: a checkpoint is written as changes relative to its base and is read back as a complete state.

use std::collections::BTreeMap;

use graph_core::checkpoint::{Change, CheckpointError, Lookup};
use serde_json::{Map, Value, json};

use super::support::*;

checks! {
    "changes: `set` gives a field its value" => expect_result(vec![Change::Set(json!(1))], Some(json!(1))),
    "changes: `set` replaces a value" =>
        expect_result(vec![Change::Set(json!([1, 2])), Change::Set(json!("x"))], Some(json!("x"))),
    "changes: `clear` removes the value" =>
        expect_result(vec![Change::Set(json!(1)), Change::Clear], None),
    "changes: `clear` of an absent field leaves it absent" => expect_result(vec![Change::Clear], None),
    "changes: a cleared field can be set again" =>
        expect_result(vec![Change::Set(json!(1)), Change::Clear, Change::Set(json!(2))], Some(json!(2))),
    "changes: `extend` after `clear` starts an empty list" =>
        expect_result(vec![extend(&[1, 2]), Change::Clear, extend(&[3])], Some(json!([3]))),
    "changes: `merge` after `clear` starts an empty map" => expect_result(
        vec![merge(json!({"a": 1})), Change::Clear, merge(json!({"b": 2}))],
        Some(json!({"b": 2}))
    ),
    "changes: `extend` of an absent field creates a list" =>
        expect_result(vec![extend(&[1, 2])], Some(json!([1, 2]))),
    "changes: `extend` appends in order" =>
        expect_result(vec![extend(&[3, 1]), extend(&[2]), extend(&[1])], Some(json!([3, 1, 2, 1]))),
    "changes: `extend` appends to a value that was set" =>
        expect_result(vec![Change::Set(json!([1])), extend(&[2])], Some(json!([1, 2]))),
    "changes: `extend` with no items creates an empty list" => expect_result(vec![extend(&[])], Some(json!([]))),
    "changes: an appended list is one item" => expect_result(
        vec![extend(&[1]), Change::Extend(vec![json!([2, 3])])],
        Some(json!([1, [2, 3]]))
    ),
    "changes: `put` replaces an item" => expect_result(
        vec![extend(&[1, 2, 3]), Change::Put(vec![(1, json!("two"))])],
        Some(json!([1, "two", 3]))
    ),
    "changes: `put` at the list's length appends" => expect_result(
        vec![extend(&[1]), Change::Put(vec![(1, json!(2)), (2, json!(3))])],
        Some(json!([1, 2, 3]))
    ),
    "changes: `put` of an absent field creates a list" =>
        expect_result(vec![Change::Put(vec![(0, json!("a"))])], Some(json!(["a"]))),
    "changes: `put` twice at one index keeps the second" => expect_result(
        vec![extend(&[0]), Change::Put(vec![(0, json!(1)), (0, json!(2))])],
        Some(json!([2]))
    ),
    "changes: `remove` drops items and keeps the order of the others" => expect_result(
        vec![extend(&[1, 2, 3, 4]), Change::Remove(vec![0, 2]), extend(&[5])],
        Some(json!([2, 4, 5]))
    ),
    "changes: `merge` of an absent field creates a map" =>
        expect_result(vec![merge(json!({"a": 1}))], Some(json!({"a": 1}))),
    "changes: `merge` sets entries and keeps the others" => expect_result(
        vec![merge(json!({"a": 1, "b": 1})), merge(json!({"b": 2, "c": 2}))],
        Some(json!({"a": 1, "b": 2, "c": 2}))
    ),
    "changes: `merge` replaces whole entries" => expect_result(
        vec![merge(json!({"a": {"x": 1}})), merge(json!({"a": {"y": 2}}))],
        Some(json!({"a": {"y": 2}}))
    ),
    "changes: `merge` of null keeps the entry" =>
        expect_result(vec![merge(json!({"a": 1})), merge(json!({"a": null}))], Some(json!({"a": null}))),
    "changes: all kinds of changes combine" => expect_result(
        vec![extend(&[1]), Change::Put(vec![(0, json!({"a": 1}))]), extend(&[2]), extend(&[3])],
        Some(json!([{"a": 1}, 2, 3]))
    ),
    "changes: several changes of a field in one checkpoint apply in order" => in_one_checkpoint(),
    "changes: untouched fields keep their values" => untouched(),
    "changes: a checkpoint without changes equals its base" => no_changes(),
    "changes: no base means an empty state" => no_base(),
    "changes: later changes do not affect older checkpoints" => older_unchanged(),
    "changes: fields are independent" => independent_fields(),
    "changes: a change of the wrong kind is never read as a value" => wrong_kind(),
    "changes: a chain of 3,000 `extend` changes reads back completely" => long_extends(),
    "changes: a chain of 500 `merge` changes reads back completely" => long_merges(),
    "changes: a chain of 500 `put` changes reads back completely" => long_puts(),
    "changes: a listing of a long chain reads back completely" => long_listing(),
    "changes: 200 random changes on random bases match a model" => random_changes(),
}

fn extend(items: &[i64]) -> Change {
    Change::Extend(items.iter().copied().map(Value::from).collect())
}

fn merge(entries: Value) -> Change {
    Change::Merge(object(entries))
}

/// Stores one checkpoint per change to a field and checks the field's value in the last checkpoint.
async fn expect_result(saver: Saver, changes: Vec<Change>, expected: Option<Value>) -> CheckResult {
    let mut id = first().put(&saver).await?;
    for change in changes {
        id = after(id).change("field", change).put(&saver).await?;
    }
    let values: Map<_, _> = expected.map(|it| ("field".to_owned(), it)).into_iter().collect();
    expect_values(&saver, id, values.into()).await
}

async fn in_one_checkpoint(saver: Saver) -> CheckResult {
    let draft = first().set("a", json!([1])).extend("a", [2]).set("b", 1);
    let id = draft.change("b", Change::Clear).extend("a", [3]).put(&saver).await?;
    expect_values(&saver, id, json!({"a": [1, 2, 3]})).await
}

async fn untouched(saver: Saver) -> CheckResult {
    let mut id = first().set("kept", "k").extend("list", [1]).merge("map", json!({"m": 1}));
    id = id.set("n", 0);
    let mut head = id.put(&saver).await?;
    for n in 1..50 {
        head = after(head).set("n", n).put(&saver).await?;
    }
    expect_values(&saver, head, json!({"kept": "k", "list": [1], "map": {"m": 1}, "n": 49})).await
}

async fn no_changes(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let id = after(ids[2]).put(&saver).await?;
    expect_values(&saver, id, chain_values(2)).await
}

async fn no_base(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    let id = after(ids[1]).without_base().extend("log", ["new"]).put(&saver).await?;
    expect_values(&saver, id, json!({"log": ["new"]})).await
}

async fn older_unchanged(saver: Saver) -> CheckResult {
    let first = first().set("a", 1).extend("list", [1]).merge("map", json!({"k": 1}));
    let older = first.set("removed", 1).put(&saver).await?;
    let newer = after(older).set("a", 2).extend("list", [2]).merge("map", json!({"k": 2}));
    let newer = newer.change("removed", Change::Clear).put(&saver).await?;
    let put = after(newer).change("list", Change::Put(vec![(0, json!("x"))])).put(&saver).await?;
    expect_values(&saver, older, json!({"a": 1, "list": [1], "map": {"k": 1}, "removed": 1}))
        .await?;
    expect_values(&saver, newer, json!({"a": 2, "list": [1, 2], "map": {"k": 2}})).await?;
    expect_values(&saver, put, json!({"a": 2, "list": ["x", 2], "map": {"k": 2}})).await
}

async fn independent_fields(saver: Saver) -> CheckResult {
    let id = first().extend("a", [1]).extend("ab", [2]).extend("A", [3]).put(&saver).await?;
    let id = after(id).extend("ab", [4]).change("A", Change::Clear).put(&saver).await?;
    expect_values(&saver, id, json!({"a": [1], "ab": [2, 4]})).await
}

/// A change of the wrong kind must be rejected, either when it is written or when it is read.
async fn wrong_kind(saver: Saver) -> CheckResult {
    let id = first().set("text", "t").put(&saver).await?;
    let draft = after(id).extend("text", [1]);
    let at = Lookup::exact(THREAD, ROOT, draft.id());
    if draft.put(&saver).await.is_ok() {
        expect_err!(saver.get(&at).await, CheckpointError::Corrupt { thread, .. } if thread == THREAD);
    }
    Ok(())
}

async fn long_extends(saver: Saver) -> CheckResult {
    const LENGTH: usize = 3_000;
    let mut ids = vec![first().extend("log", [0]).put(&saver).await?];
    for idx in 1..LENGTH {
        ids.push(after(ids[idx - 1]).extend("log", [idx]).put(&saver).await?);
    }
    for idx in [LENGTH - 1, LENGTH / 2, 0] {
        expect_values(&saver, ids[idx], json!({"log": (0..=idx).collect::<Vec<_>>()})).await?;
    }
    Ok(())
}

async fn long_merges(saver: Saver) -> CheckResult {
    let mut expected = Map::new();
    let mut id = first().put(&saver).await?;
    for n in 0..500 {
        let key = format!("k{}", n % 100);
        expected.insert(key.clone(), json!(n));
        id = after(id).merge("map", json!({key: n})).put(&saver).await?;
    }
    expect_values(&saver, id, json!({"map": expected})).await
}

async fn long_puts(saver: Saver) -> CheckResult {
    let mut expected: Vec<Value> = (0..10).map(Value::from).collect();
    let mut id = first().set("list", expected.clone()).put(&saver).await?;
    for n in 0..500 {
        expected[n * 7 % 10] = json!(n);
        id =
            after(id).change("list", Change::Put(vec![(n * 7 % 10, json!(n))])).put(&saver).await?;
    }
    expect_values(&saver, id, json!({"list": expected})).await
}

async fn long_listing(saver: Saver) -> CheckResult {
    let n = chain(&saver, 200).await?.len();
    let found = saver.list(&history()).await?;
    expect_eq("the number of checkpoints", found.len(), n)?;
    for (checkpoint, idx) in found.into_iter().zip((0..n).rev()) {
        expect_eq("the values", Value::Object(checkpoint.values), chain_values(idx))?;
    }
    Ok(())
}

async fn random_changes(saver: Saver) -> CheckResult {
    let mut rng = SeededRng(7);
    let mut known = vec![(first().put(&saver).await?, BTreeMap::new())];
    for _ in 0..200 {
        let head = known[known.len() - 1].0;
        // Most checkpoints extend the head, as in a normal thread. The others fork.
        let base = if rng.below(4) == 0 { rng.below(known.len()) } else { known.len() - 1 };
        let (base, mut values) = known[base].clone();
        let mut draft = after(head).based_on(base);
        for _ in 0..=rng.below(3) {
            let (field, change) = rng.change(&values);
            apply(&change, field, &mut values);
            draft = draft.change(field, change);
        }
        known.push((draft.put(&saver).await?, values));
    }
    for (id, values) in known {
        let values: Map<_, _> =
            values.into_iter().map(|(field, it)| (field.to_owned(), it)).collect();
        expect_values(&saver, id, values.into()).await?;
    }
    Ok(())
}

type Values = BTreeMap<&'static str, Value>;

fn apply(change: &Change, field: &'static str, values: &mut Values) {
    let mut value = values.remove(field);
    change.apply(&mut value).expect("only changes of the right kind are generated");
    values.extend(value.map(|it| (field, it)));
}

/// Deterministic pseudo-random generator.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn change(&mut self, values: &Values) -> (&'static str, Change) {
        let n = self.below(1_000);
        let length = values.get("list").and_then(Value::as_array).map_or(0, Vec::len);
        match self.below(9) {
            0 => ("list", Change::Clear),
            1 => ("map", Change::Clear),
            2 => ("list", Change::Set(json!([n]))),
            3 => ("map", Change::Set(json!({"set": n}))),
            4 => ("list", Change::Put(vec![(self.below(length + 1), json!(n))])),
            5 => ("map", merge(json!({format!("k{}", n % 5): n}))),
            6 if length > 0 => {
                let (first, step) = (self.below(length), 1 + self.below(3));
                ("list", Change::Remove((first..length).step_by(step).take(3).collect()))
            }
            _ => ("list", Change::Extend(vec![json!(n), json!(n + 1)])),
        }
    }
}
