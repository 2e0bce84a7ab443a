//! Forks and copies: a checkpoint's base need be neither its parent nor the head.

use serde_json::json;

use super::support::*;
use crate::checkpoint::{Change, Source};

checks! {
    "forks: two children of one base have their own values" => two_children(),
    "forks: lists extended in two branches do not mix" => lists_apart(),
    "forks: a branch goes on from its own base" => branch_goes_on(),
    "forks: a fork of a fork reads whole" => fork_of_fork(),
    "forks: a base apart from the parent gives the values" => base_not_parent(),
    "forks: a copy of a checkpoint is equal to it" => copy_of_one(),
    "forks: the newest checkpoint is the head, whatever its base" => newest_is_head(),
    "forks: the history holds all branches" => history_holds_all(),
    "forks: what one branch cleared stays in the other" => cleared_in_one(),
}

async fn two_children(saver: Saver) -> Outcome {
    let base = first().set("a", 0).set("b", 0).put(&saver).await?;
    let left = after(base).set("a", 1).put(&saver).await?;
    let right = after(left).based_on(base).set("b", 2).put(&saver).await?;
    holds(&saver, base, json!({"a": 0, "b": 0})).await?;
    holds(&saver, left, json!({"a": 1, "b": 0})).await?;
    holds(&saver, right, json!({"a": 0, "b": 2})).await
}

async fn lists_apart(saver: Saver) -> Outcome {
    let base = first().extend("list", ["base"]).put(&saver).await?;
    let left = after(base).extend("list", ["left"]).put(&saver).await?;
    let right = after(left).based_on(base).extend("list", ["right"]).put(&saver).await?;
    holds(&saver, left, json!({"list": ["base", "left"]})).await?;
    holds(&saver, right, json!({"list": ["base", "right"]})).await
}

async fn branch_goes_on(saver: Saver) -> Outcome {
    let base = first().extend("list", [0]).put(&saver).await?;
    let (mut left, mut right, mut head) = (base, base, base);
    for n in 1..=20 {
        left = after(head).based_on(left).extend("list", [n]).put(&saver).await?;
        right = after(left).based_on(right).extend("list", [-n]).put(&saver).await?;
        head = right;
    }
    holds(&saver, left, json!({"list": (0..=20).collect::<Vec<_>>()})).await?;
    holds(&saver, right, json!({"list": (0..=20).map(|n| -n).collect::<Vec<_>>()})).await
}

async fn fork_of_fork(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let fork = after(ids[2]).based_on(ids[1]).extend("log", ["f"]).put(&saver).await?;
    let next = after(fork).extend("log", ["g"]).put(&saver).await?;
    let again = after(next).based_on(fork).extend("log", ["h"]).put(&saver).await?;
    holds(&saver, next, json!({"n": 1, "log": [0, 1, "f", "g"]})).await?;
    holds(&saver, again, json!({"n": 1, "log": [0, 1, "f", "h"]})).await
}

async fn base_not_parent(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let draft = after(ids[2]).based_on(ids[1]).header(|it| it.parent = Some(ids[0]));
    let id = draft.source(Source::Fork).extend("log", ["copy"]).put(&saver).await?;
    same("the parent", read(&saver, id).await?.header.parent, Some(ids[0]))?;
    holds(&saver, id, json!({"n": 1, "log": [0, 1, "copy"]})).await
}

async fn copy_of_one(saver: Saver) -> Outcome {
    let ids = chain(&saver, 4).await?;
    let copy = after(ids[3]).based_on(ids[1]).source(Source::Fork).put(&saver).await?;
    holds(&saver, copy, logged(1)).await
}

async fn newest_is_head(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let fork = after(ids[2]).based_on(ids[0]).put(&saver).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(fork))
}

async fn history_holds_all(saver: Saver) -> Outcome {
    let base = first().put(&saver).await?;
    let left = after(base).put(&saver).await?;
    let right = after(left).based_on(base).header(|it| it.parent = Some(base)).put(&saver).await?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![right, left, base])
}

async fn cleared_in_one(saver: Saver) -> Outcome {
    let base = first().set("a", 1).put(&saver).await?;
    let left = after(base).change("a", Change::Clear).put(&saver).await?;
    let right = after(left).based_on(base).put(&saver).await?;
    holds(&saver, left, json!({})).await?;
    holds(&saver, right, json!({"a": 1})).await
}
