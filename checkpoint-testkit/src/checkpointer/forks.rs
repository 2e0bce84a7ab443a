//! Forks and copies: a checkpoint's base, which its changes are relative to, need not be its parent or the head.

use graph_core::checkpoint::{Change, Source};
use serde_json::json;

use super::support::*;

checks! {
    "forks: two children of one base have their own values" => two_children(),
    "forks: lists extended in two branches are independent" => lists_apart(),
    "forks: a branch continues from its own base" => branch_goes_on(),
    "forks: a fork of a fork reads back completely" => fork_of_fork(),
    "forks: values come from the base, not from the parent" => base_not_parent(),
    "forks: a copy of a checkpoint equals the original" => copy_of_one(),
    "forks: the newest checkpoint is the head, regardless of its base" => newest_is_head(),
    "forks: the history contains all branches" => history_holds_all(),
    "forks: a field cleared in one branch is kept in the other" => cleared_in_one(),
}

async fn two_children(saver: Saver) -> CheckResult {
    let base = first().set("a", 0).set("b", 0).put(&saver).await?;
    let left = after(base).set("a", 1).put(&saver).await?;
    let right = after(left).based_on(base).set("b", 2).put(&saver).await?;
    expect_values(&saver, base, json!({"a": 0, "b": 0})).await?;
    expect_values(&saver, left, json!({"a": 1, "b": 0})).await?;
    expect_values(&saver, right, json!({"a": 0, "b": 2})).await
}

async fn lists_apart(saver: Saver) -> CheckResult {
    let base = first().extend("list", ["base"]).put(&saver).await?;
    let left = after(base).extend("list", ["left"]).put(&saver).await?;
    let right = after(left).based_on(base).extend("list", ["right"]).put(&saver).await?;
    expect_values(&saver, left, json!({"list": ["base", "left"]})).await?;
    expect_values(&saver, right, json!({"list": ["base", "right"]})).await
}

async fn branch_goes_on(saver: Saver) -> CheckResult {
    let base = first().extend("list", [0]).put(&saver).await?;
    let (mut left, mut right, mut head) = (base, base, base);
    for n in 1..=20 {
        left = after(head).based_on(left).extend("list", [n]).put(&saver).await?;
        right = after(left).based_on(right).extend("list", [-n]).put(&saver).await?;
        head = right;
    }
    expect_values(&saver, left, json!({"list": (0..=20).collect::<Vec<_>>()})).await?;
    expect_values(&saver, right, json!({"list": (0..=20).map(|n| -n).collect::<Vec<_>>()})).await
}

async fn fork_of_fork(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let fork = after(ids[2]).based_on(ids[1]).extend("log", ["f"]).put(&saver).await?;
    let next = after(fork).extend("log", ["g"]).put(&saver).await?;
    let again = after(next).based_on(fork).extend("log", ["h"]).put(&saver).await?;
    expect_values(&saver, next, json!({"n": 1, "log": [0, 1, "f", "g"]})).await?;
    expect_values(&saver, again, json!({"n": 1, "log": [0, 1, "f", "h"]})).await
}

async fn base_not_parent(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let draft = after(ids[2]).based_on(ids[1]).header(|it| it.parent = Some(ids[0]));
    let id = draft.source(Source::Fork).extend("log", ["copy"]).put(&saver).await?;
    expect_eq("the parent", read(&saver, id).await?.header.parent, Some(ids[0]))?;
    expect_values(&saver, id, json!({"n": 1, "log": [0, 1, "copy"]})).await
}

async fn copy_of_one(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 4).await?;
    let copy = after(ids[3]).based_on(ids[1]).source(Source::Fork).put(&saver).await?;
    expect_values(&saver, copy, chain_values(1)).await
}

async fn newest_is_head(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    let fork = after(ids[2]).based_on(ids[0]).put(&saver).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(fork))
}

async fn history_holds_all(saver: Saver) -> CheckResult {
    let base = first().put(&saver).await?;
    let left = after(base).put(&saver).await?;
    let right = after(left).based_on(base).header(|it| it.parent = Some(base)).put(&saver).await?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![right, left, base])
}

async fn cleared_in_one(saver: Saver) -> CheckResult {
    let base = first().set("a", 1).put(&saver).await?;
    let left = after(base).change("a", Change::Clear).put(&saver).await?;
    let right = after(left).based_on(base).put(&saver).await?;
    expect_values(&saver, left, json!({})).await?;
    expect_values(&saver, right, json!({"a": 1})).await
}
