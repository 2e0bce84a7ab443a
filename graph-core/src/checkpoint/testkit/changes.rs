//! Changes: a checkpoint holds what changed since its base, and reads back whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::support::*;
use crate::checkpoint::{Change, CheckpointError, Lookup};

checks! {
    "changes: set gives a field its value" => come_to(vec![Change::Set(json!(1))], Some(json!(1))),
    "changes: set replaces a value" =>
        come_to(vec![Change::Set(json!([1, 2])), Change::Set(json!("x"))], Some(json!("x"))),
    "changes: clear takes the value away" =>
        come_to(vec![Change::Set(json!(1)), Change::Clear], None),
    "changes: clear of an absent field leaves it absent" => come_to(vec![Change::Clear], None),
    "changes: a cleared field can be set again" =>
        come_to(vec![Change::Set(json!(1)), Change::Clear, Change::Set(json!(2))], Some(json!(2))),
    "changes: extend after clear starts an empty list" =>
        come_to(vec![extend(&[1, 2]), Change::Clear, extend(&[3])], Some(json!([3]))),
    "changes: merge after clear starts an empty map" => come_to(
        vec![merge(json!({"a": 1})), Change::Clear, merge(json!({"b": 2}))],
        Some(json!({"b": 2}))
    ),
    "changes: extend of an absent field makes a list" =>
        come_to(vec![extend(&[1, 2])], Some(json!([1, 2]))),
    "changes: extend appends in order" =>
        come_to(vec![extend(&[3, 1]), extend(&[2]), extend(&[1])], Some(json!([3, 1, 2, 1]))),
    "changes: extend builds on a value that was set" =>
        come_to(vec![Change::Set(json!([1])), extend(&[2])], Some(json!([1, 2]))),
    "changes: extend by nothing makes an empty list" => come_to(vec![extend(&[])], Some(json!([]))),
    "changes: an appended list stays one item" => come_to(
        vec![extend(&[1]), Change::Extend(vec![json!([2, 3])])],
        Some(json!([1, [2, 3]]))
    ),
    "changes: put replaces an item" => come_to(
        vec![extend(&[1, 2, 3]), Change::Put(vec![(1, json!("two"))])],
        Some(json!([1, "two", 3]))
    ),
    "changes: put at the list's length appends" => come_to(
        vec![extend(&[1]), Change::Put(vec![(1, json!(2)), (2, json!(3))])],
        Some(json!([1, 2, 3]))
    ),
    "changes: put of an absent field makes a list" =>
        come_to(vec![Change::Put(vec![(0, json!("a"))])], Some(json!(["a"]))),
    "changes: put twice at one index keeps the second" => come_to(
        vec![extend(&[0]), Change::Put(vec![(0, json!(1)), (0, json!(2))])],
        Some(json!([2]))
    ),
    "changes: merge of an absent field makes a map" =>
        come_to(vec![merge(json!({"a": 1}))], Some(json!({"a": 1}))),
    "changes: merge sets entries and keeps the others" => come_to(
        vec![merge(json!({"a": 1, "b": 1})), merge(json!({"b": 2, "c": 2}))],
        Some(json!({"a": 1, "b": 2, "c": 2}))
    ),
    "changes: merge replaces an entry as a whole" => come_to(
        vec![merge(json!({"a": {"x": 1}})), merge(json!({"a": {"y": 2}}))],
        Some(json!({"a": {"y": 2}}))
    ),
    "changes: merge to null keeps the entry" =>
        come_to(vec![merge(json!({"a": 1})), merge(json!({"a": null}))], Some(json!({"a": null}))),
    "changes: all kinds build on each other" => come_to(
        vec![extend(&[1]), Change::Put(vec![(0, json!({"a": 1}))]), extend(&[2]), extend(&[3])],
        Some(json!([{"a": 1}, 2, 3]))
    ),
    "changes: several changes of a field in one checkpoint apply in order" => in_one_checkpoint(),
    "changes: untouched fields are carried over" => untouched(),
    "changes: a checkpoint without changes is its base again" => no_changes(),
    "changes: no base means an empty state" => no_base(),
    "changes: later changes do not show in older checkpoints" => older_stay(),
    "changes: fields do not mix" => fields_apart(),
    "changes: a change that does not fit is never read as a value" => misfit(),
    "changes: a chain of 3,000 extends reads whole" => long_extends(),
    "changes: a chain of 500 merges reads whole" => long_merges(),
    "changes: a chain of 500 puts reads whole" => long_puts(),
    "changes: a listing of a long chain reads whole" => long_listing(),
    "changes: 200 changes of all kinds on any base come to what they say" => by_model(),
}

fn extend(items: &[i64]) -> Change {
    Change::Extend(items.iter().copied().map(Value::from).collect())
}

fn merge(entries: Value) -> Change {
    Change::Merge(object(entries))
}

/// Puts a checkpoint for each change of a field and looks at the last.
async fn come_to(saver: Saver, changes: Vec<Change>, expected: Option<Value>) -> Outcome {
    let mut id = first().put(&saver).await?;
    for change in changes {
        id = after(id).change("field", change).put(&saver).await?;
    }
    let values: Map<_, _> = expected.map(|it| ("field".to_owned(), it)).into_iter().collect();
    holds(&saver, id, values.into()).await
}

async fn in_one_checkpoint(saver: Saver) -> Outcome {
    let draft = first().set("a", json!([1])).extend("a", [2]).set("b", 1);
    let id = draft.change("b", Change::Clear).extend("a", [3]).put(&saver).await?;
    holds(&saver, id, json!({"a": [1, 2, 3]})).await
}

async fn untouched(saver: Saver) -> Outcome {
    let mut id = first().set("kept", "k").extend("list", [1]).merge("map", json!({"m": 1}));
    id = id.set("n", 0);
    let mut head = id.put(&saver).await?;
    for n in 1..50 {
        head = after(head).set("n", n).put(&saver).await?;
    }
    holds(&saver, head, json!({"kept": "k", "list": [1], "map": {"m": 1}, "n": 49})).await
}

async fn no_changes(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let id = after(ids[2]).put(&saver).await?;
    holds(&saver, id, logged(2)).await
}

async fn no_base(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    let id = after(ids[1]).without_base().extend("log", ["new"]).put(&saver).await?;
    holds(&saver, id, json!({"log": ["new"]})).await
}

async fn older_stay(saver: Saver) -> Outcome {
    let first = first().set("a", 1).extend("list", [1]).merge("map", json!({"k": 1}));
    let older = first.set("gone", 1).put(&saver).await?;
    let newer = after(older).set("a", 2).extend("list", [2]).merge("map", json!({"k": 2}));
    let newer = newer.change("gone", Change::Clear).put(&saver).await?;
    let put = after(newer).change("list", Change::Put(vec![(0, json!("x"))])).put(&saver).await?;
    holds(&saver, older, json!({"a": 1, "list": [1], "map": {"k": 1}, "gone": 1})).await?;
    holds(&saver, newer, json!({"a": 2, "list": [1, 2], "map": {"k": 2}})).await?;
    holds(&saver, put, json!({"a": 2, "list": ["x", 2], "map": {"k": 2}})).await
}

async fn fields_apart(saver: Saver) -> Outcome {
    let id = first().extend("a", [1]).extend("ab", [2]).extend("A", [3]).put(&saver).await?;
    let id = after(id).extend("ab", [4]).change("A", Change::Clear).put(&saver).await?;
    holds(&saver, id, json!({"a": [1], "ab": [2, 4]})).await
}

/// The saver may notice at the put or when it reads.
async fn misfit(saver: Saver) -> Outcome {
    let id = first().set("text", "t").put(&saver).await?;
    let draft = after(id).extend("text", [1]);
    let at = Lookup::exact(THREAD, ROOT, draft.id());
    if draft.put(&saver).await.is_ok() {
        refused!(saver.get(&at).await, CheckpointError::Damaged { thread, .. } if thread == THREAD);
    }
    Ok(())
}

async fn long_extends(saver: Saver) -> Outcome {
    const LENGTH: usize = 3_000;
    let mut ids = vec![first().extend("log", [0]).put(&saver).await?];
    for idx in 1..LENGTH {
        ids.push(after(ids[idx - 1]).extend("log", [idx]).put(&saver).await?);
    }
    for idx in [LENGTH - 1, LENGTH / 2, 0] {
        holds(&saver, ids[idx], json!({"log": (0..=idx).collect::<Vec<_>>()})).await?;
    }
    Ok(())
}

async fn long_merges(saver: Saver) -> Outcome {
    let mut expected = Map::new();
    let mut id = first().put(&saver).await?;
    for n in 0..500 {
        let key = format!("k{}", n % 100);
        expected.insert(key.clone(), json!(n));
        id = after(id).merge("map", json!({key: n})).put(&saver).await?;
    }
    holds(&saver, id, json!({"map": expected})).await
}

async fn long_puts(saver: Saver) -> Outcome {
    let mut expected: Vec<Value> = (0..10).map(Value::from).collect();
    let mut id = first().set("list", expected.clone()).put(&saver).await?;
    for n in 0..500 {
        expected[n * 7 % 10] = json!(n);
        id =
            after(id).change("list", Change::Put(vec![(n * 7 % 10, json!(n))])).put(&saver).await?;
    }
    holds(&saver, id, json!({"list": expected})).await
}

async fn long_listing(saver: Saver) -> Outcome {
    let n = chain(&saver, 200).await?.len();
    let found = saver.list(&history()).await?;
    same("the number of checkpoints", found.len(), n)?;
    for (checkpoint, idx) in found.into_iter().zip((0..n).rev()) {
        same("the values", Value::Object(checkpoint.values), logged(idx))?;
    }
    Ok(())
}

async fn by_model(saver: Saver) -> Outcome {
    let mut dice = Dice(7);
    let mut known = vec![(first().put(&saver).await?, BTreeMap::new())];
    for _ in 0..200 {
        let head = known[known.len() - 1].0;
        // Mostly on the head, as a thread goes; now and then a fork.
        let base = if dice.roll(4) == 0 { dice.roll(known.len()) } else { known.len() - 1 };
        let (base, mut values) = known[base].clone();
        let mut draft = after(head).based_on(base);
        for _ in 0..=dice.roll(3) {
            let (field, change) = dice.change(&values);
            apply(&change, field, &mut values);
            draft = draft.change(field, change);
        }
        known.push((draft.put(&saver).await?, values));
    }
    for (id, values) in known {
        let values: Map<_, _> =
            values.into_iter().map(|(field, it)| (field.to_owned(), it)).collect();
        holds(&saver, id, values.into()).await?;
    }
    Ok(())
}

type Values = BTreeMap<&'static str, Value>;

fn apply(change: &Change, field: &'static str, values: &mut Values) {
    let mut value = values.remove(field);
    change.apply(&mut value).expect("the dice give only changes that fit");
    values.extend(value.map(|it| (field, it)));
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn change(&mut self, values: &Values) -> (&'static str, Change) {
        let n = self.roll(1_000);
        let length = values.get("list").and_then(Value::as_array).map_or(0, Vec::len);
        match self.roll(8) {
            0 => ("list", Change::Clear),
            1 => ("map", Change::Clear),
            2 => ("list", Change::Set(json!([n]))),
            3 => ("map", Change::Set(json!({"set": n}))),
            4 => ("list", Change::Put(vec![(self.roll(length + 1), json!(n))])),
            5 => ("map", merge(json!({format!("k{}", n % 5): n}))),
            _ => ("list", Change::Extend(vec![json!(n), json!(n + 1)])),
        }
    }
}
