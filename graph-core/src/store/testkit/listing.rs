//! Listing namespaces.

use serde_json::json;

use super::support::*;
use crate::store::{ListNamespaces, StoreError};

checks! {
    "list: namespaces match by both ends" => plain, both_ends(),
    "list: a namespace is cut and listed once" => plain, cut(),
    "list: pages" => plain, pages(),
    "list: a hundred unless told otherwise" => plain, default_limit(),
    "list: a namespace goes with its last item" => plain, last_item(),
    "list: a limit or a depth of 0 is an error" => plain, zero(),
}

fn all() -> ListNamespaces {
    ListNamespaces::new()
}

async fn fill(bench: &Bench) -> Outcome {
    for namespace in [
        &["docs", "v1"][..],
        &["users", "ada", "notes"],
        &["users", "bob", "notes", "old"],
        &["users", "bob", "v1"],
        &["users"],
    ] {
        for key in ["1", "2"] {
            bench.store.put(namespace, key, json!({})).await?;
        }
    }
    Ok(())
}

async fn both_ends(bench: Bench) -> Outcome {
    fill(&bench).await?;
    let everything = "docs.v1 users users.ada.notes users.bob.notes.old users.bob.v1";
    for (list, expect) in [
        (all(), everything),
        (all().prefix(&["users", "*", "notes"])?, "users.ada.notes users.bob.notes.old"),
        (all().prefix(&["*", "v1"])?, "docs.v1"),
        (all().prefix(&["users", "bob"])?, "users.bob.notes.old users.bob.v1"),
        (all().prefix(&["use"])?, ""),
        (all().suffix(&["v1"])?, "docs.v1 users.bob.v1"),
        (all().suffix(&["notes", "*"])?, "users.bob.notes.old"),
        (all().prefix(&["users"])?.suffix(&["v1"])?, "users.bob.v1"),
    ] {
        assert_eq!(bench.listed(list.clone()).await?, expect, "{list:?}");
    }
    Ok(())
}

async fn cut(bench: Bench) -> Outcome {
    fill(&bench).await?;
    assert_eq!(bench.listed(all().max_depth(2)).await?, "docs.v1 users users.ada users.bob");
    assert_eq!(bench.listed(all().max_depth(1).offset(1)).await?, "users");
    let notes = all().suffix(&["v1"])?.max_depth(1);
    assert_eq!(bench.listed(notes).await?, "docs users", "the whole namespace is compared");
    Ok(())
}

async fn pages(bench: Bench) -> Outcome {
    fill(&bench).await?;
    assert_eq!(bench.listed(all().limit(1).offset(1)).await?, "users");
    assert_eq!(bench.listed(all().offset(9)).await?, "");
    assert_eq!(bench.listed(all().offset(4).limit(usize::MAX)).await?, "users.bob.v1");
    Ok(())
}

async fn default_limit(bench: Bench) -> Outcome {
    for n in 0..101 {
        bench.store.put(&["n", &n.to_string()], "k", json!({})).await?;
    }
    assert_eq!(bench.store.list_namespaces(all()).await?.len(), 100);
    Ok(())
}

async fn last_item(bench: Bench) -> Outcome {
    fill(&bench).await?;
    bench.store.delete(&["docs", "v1"], "1").await?;
    assert_eq!(bench.listed(all().max_depth(1)).await?, "docs users");
    bench.store.delete(&["docs", "v1"], "2").await?;
    assert_eq!(bench.listed(all().max_depth(1)).await?, "users");
    Ok(())
}

async fn zero(bench: Bench) -> Outcome {
    let refused = bench.store.list_namespaces(all().limit(0)).await;
    assert!(matches!(refused, Err(StoreError::Zero { option: "limit" })), "{refused:?}");
    let refused = bench.store.list_namespaces(all().max_depth(0)).await;
    assert!(matches!(refused, Err(StoreError::Zero { option: "max_depth" })), "{refused:?}");
    Ok(())
}
