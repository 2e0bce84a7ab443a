//! Checks that threads and namespaces are listed, and that similar or unusual names are not confused with each other.

use graph_core::checkpoint::CheckpointKey;
use serde_json::json;

use super::support::*;

checks! {
    "threads: an empty saver lists none" => no_threads(),
    "threads: they are sorted and unique" => sorted_threads(),
    "threads: a thread with only subgraph checkpoints is listed" => only_subgraph(),
    "threads: they do not share values" => own_values(),
    "threads: unusual names are distinct" => unusual_threads(),
    "namespaces: they are sorted and counted" => counted(),
    "namespaces: an unknown thread has none" => of_unknown(),
    "namespaces: other threads are excluded" => of_thread(),
    "namespaces: a name and its prefix are distinct" => prefixes(),
    "namespaces: unusual names are distinct" => unusual_namespaces(),
    "namespaces: a rejected checkpoint is not counted" => rejected_not_counted(),
}

/// Names that an incorrect saver might confuse with each other or interpret as part of a query.
const UNUSUAL: [&str; 16] = [
    "", " ", "a", "A", "a ", " a", "a/b", "a|b", "a:b", "a%", "a_", "a'b", "a\"b", "a\\b", "ä",
    "线",
];

async fn no_threads(saver: Saver) -> CheckResult {
    expect_eq("the threads", saver.threads().await?, vec![])
}

async fn sorted_threads(saver: Saver) -> CheckResult {
    for thread in ["c", "a", "b"] {
        chain_like(&saver, &first().thread(thread), 2).await?;
        first().thread(thread).namespace("child:1").put(&saver).await?;
    }
    expect_eq("the threads", saver.threads().await?, ["a", "b", "c"].map(str::to_owned).into())
}

async fn only_subgraph(saver: Saver) -> CheckResult {
    first().namespace("child:1").put(&saver).await?;
    expect_eq("the threads", saver.threads().await?, vec![THREAD.to_owned()])?;
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, vec![("child:1".to_owned(), 1)])
}

async fn own_values(saver: Saver) -> CheckResult {
    let one = first().thread("one").extend("list", [1]).put(&saver).await?;
    let two = first().thread("two").extend("list", [2]).put(&saver).await?;
    let next = after(one).thread("one").extend("list", [3]).put(&saver).await?;
    expect_values_at(&saver, &key_in("one", ROOT, next), json!({"list": [1, 3]})).await?;
    expect_values_at(&saver, &key_in("two", ROOT, two), json!({"list": [2]})).await
}

async fn unusual_threads(saver: Saver) -> CheckResult {
    put_and_read_unusual(&saver, |name| first().thread(name)).await?;
    let mut found = saver.threads().await?;
    found.sort();
    expect_eq("the threads", found, sorted_unusual())
}

async fn counted(saver: Saver) -> CheckResult {
    for (namespace, n) in [("node:2", 3), ("", 2), ("node:1", 1)] {
        chain_like(&saver, &first().namespace(namespace), n).await?;
    }
    let expected = [("", 2), ("node:1", 1), ("node:2", 3)].map(|(name, n)| (name.to_owned(), n));
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, expected.into())
}

async fn of_unknown(saver: Saver) -> CheckResult {
    chain(&saver, 1).await?;
    expect_eq("the namespaces", saver.namespaces("other").await?, vec![])
}

async fn of_thread(saver: Saver) -> CheckResult {
    first().thread("one").namespace("x:1").put(&saver).await?;
    first().thread("two").namespace("y:1").put(&saver).await?;
    expect_eq("the namespaces", saver.namespaces("one").await?, vec![("x:1".to_owned(), 1)])
}

async fn prefixes(saver: Saver) -> CheckResult {
    for (idx, namespace) in ["", "a:1", "a:1|b:2", "a:12"].into_iter().enumerate() {
        first().namespace(namespace).set("n", idx).put(&saver).await?;
    }
    for (idx, namespace) in ["", "a:1", "a:1|b:2", "a:12"].into_iter().enumerate() {
        let id = head(&saver, THREAD, namespace).await?.ok_or_else(|| missing(namespace))?;
        expect_values_at(&saver, &key_in(THREAD, namespace, id), json!({"n": idx})).await?;
    }
    Ok(())
}

async fn unusual_namespaces(saver: Saver) -> CheckResult {
    put_and_read_unusual(&saver, |name| first().namespace(name)).await?;
    let mut found: Vec<_> = saver.namespaces(THREAD).await?.into_iter().map(|it| it.0).collect();
    found.sort();
    expect_eq("the namespaces", found, sorted_unusual())
}

/// Puts a checkpoint for each unusual name, and then reads each of them.
async fn put_and_read_unusual(saver: &Saver, draft: fn(&str) -> Draft) -> CheckResult {
    for name in UNUSUAL {
        draft(name).set("name", name).put(saver).await?;
    }
    for name in UNUSUAL {
        let CheckpointKey { thread, namespace, .. } = draft(name).0.key;
        let id = head(saver, &thread, &namespace).await?.ok_or_else(|| missing(name))?;
        let at = key_in(&thread, &namespace, id);
        expect_values_at(saver, &at, json!({"name": name})).await?;
    }
    Ok(())
}

async fn rejected_not_counted(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    expect_eq("a stale writer is rejected", after(ids[0]).put(&saver).await.is_err(), true)?;
    expect_eq("the namespaces", saver.namespaces(THREAD).await?, vec![(ROOT.to_owned(), 2)])
}

fn sorted_unusual() -> Vec<String> {
    let mut names = UNUSUAL.map(str::to_owned);
    names.sort();
    names.into()
}

fn missing(name: &str) -> CheckProblem {
    CheckProblem::differs("the checkpoint", &name, &"none")
}
