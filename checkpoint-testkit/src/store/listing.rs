//! Checks of the listing of namespaces.

use graph_core::store::{ListNamespaces, StoreError};
use serde_json::json;

use super::support::*;

checks! {
    "list: namespaces match by prefix and suffix" => plain, prefix_and_suffix(),
    "list: truncated namespaces are listed once" => plain, truncated(),
    "list: limit and offset select a page" => plain, pages(),
    "list: the default limit is 100" => plain, default_limit(),
    "list: a namespace disappears with its last item" => plain, last_item(),
    "list: a limit or depth of 0 is an error" => plain, zero(),
}

fn all() -> ListNamespaces {
    ListNamespaces::new()
}

async fn fill(fixture: &Fixture) -> CheckResult {
    for namespace in [
        &["docs", "v1"][..],
        &["users", "ada", "notes"],
        &["users", "bob", "notes", "old"],
        &["users", "bob", "v1"],
        &["users"],
    ] {
        for key in ["1", "2"] {
            fixture.store.put(namespace, key, json!({})).await?;
        }
    }
    Ok(())
}

async fn prefix_and_suffix(fixture: Fixture) -> CheckResult {
    fill(&fixture).await?;
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
        assert_eq!(fixture.listed_namespaces(list.clone()).await?, expect, "{list:?}");
    }
    Ok(())
}

async fn truncated(fixture: Fixture) -> CheckResult {
    fill(&fixture).await?;
    assert_eq!(
        fixture.listed_namespaces(all().max_depth(2)).await?,
        "docs.v1 users users.ada users.bob"
    );
    assert_eq!(fixture.listed_namespaces(all().max_depth(1).offset(1)).await?, "users");
    let by_suffix = all().suffix(&["v1"])?.max_depth(1);
    let listed = fixture.listed_namespaces(by_suffix).await?;
    assert_eq!(listed, "docs users", "the suffix is compared before truncation");
    Ok(())
}

async fn pages(fixture: Fixture) -> CheckResult {
    fill(&fixture).await?;
    assert_eq!(fixture.listed_namespaces(all().limit(1).offset(1)).await?, "users");
    assert_eq!(fixture.listed_namespaces(all().offset(9)).await?, "");
    assert_eq!(fixture.listed_namespaces(all().offset(4).limit(usize::MAX)).await?, "users.bob.v1");
    Ok(())
}

async fn default_limit(fixture: Fixture) -> CheckResult {
    for n in 0..101 {
        fixture.store.put(&["n", &n.to_string()], "k", json!({})).await?;
    }
    assert_eq!(fixture.store.list_namespaces(all()).await?.len(), 100);
    Ok(())
}

async fn last_item(fixture: Fixture) -> CheckResult {
    fill(&fixture).await?;
    fixture.store.delete(&["docs", "v1"], "1").await?;
    assert_eq!(fixture.listed_namespaces(all().max_depth(1)).await?, "docs users");
    fixture.store.delete(&["docs", "v1"], "2").await?;
    assert_eq!(fixture.listed_namespaces(all().max_depth(1)).await?, "users");
    Ok(())
}

async fn zero(fixture: Fixture) -> CheckResult {
    let result = fixture.store.list_namespaces(all().limit(0)).await;
    assert!(matches!(result, Err(StoreError::ZeroOption { option: "limit" })), "{result:?}");
    let result = fixture.store.list_namespaces(all().max_depth(0)).await;
    assert!(matches!(result, Err(StoreError::ZeroOption { option: "max_depth" })), "{result:?}");
    Ok(())
}
