//! Threads and namespaces: which there are, and that none is mistaken for another.

use serde_json::json;

use super::support::*;

checks! {
    "threads: an empty saver has none" => no_threads(),
    "threads: they are sorted, each once" => sorted_threads(),
    "threads: one that has only a subgraph's checkpoints is there" => only_subgraph(),
    "threads: they do not share values" => own_values(),
    "threads: unusual names are kept apart" => unusual_threads(),
    "namespaces: they are sorted and counted" => counted(),
    "namespaces: an unknown thread has none" => of_unknown(),
    "namespaces: they are those of the thread alone" => of_thread(),
    "namespaces: one whose name begins another's is another" => prefixes(),
    "namespaces: unusual names are kept apart" => unusual_namespaces(),
    "namespaces: a refused checkpoint is not counted" => refused_not_counted(),
}

/// Names that a careless saver takes for one another, or for a part of its query.
const UNUSUAL: [&str; 16] = [
    "", " ", "a", "A", "a ", " a", "a/b", "a|b", "a:b", "a%", "a_", "a'b", "a\"b", "a\\b", "ä",
    "线",
];

async fn no_threads(saver: Saver) -> Outcome {
    same("the threads", saver.threads().await?, vec![])
}

async fn sorted_threads(saver: Saver) -> Outcome {
    for thread in ["c", "a", "b"] {
        chain_like(&saver, &first().thread(thread), 2).await?;
        first().thread(thread).namespace("child:1").put(&saver).await?;
    }
    same("the threads", saver.threads().await?, ["a", "b", "c"].map(str::to_owned).into())
}

async fn only_subgraph(saver: Saver) -> Outcome {
    first().namespace("child:1").put(&saver).await?;
    same("the threads", saver.threads().await?, vec![THREAD.to_owned()])?;
    same("the namespaces", saver.namespaces(THREAD).await?, vec![("child:1".to_owned(), 1)])
}

async fn own_values(saver: Saver) -> Outcome {
    let one = first().thread("one").extend("list", [1]).put(&saver).await?;
    let two = first().thread("two").extend("list", [2]).put(&saver).await?;
    let next = after(one).thread("one").extend("list", [3]).put(&saver).await?;
    holds_at(&saver, &place_in("one", ROOT, next), json!({"list": [1, 3]})).await?;
    holds_at(&saver, &place_in("two", ROOT, two), json!({"list": [2]})).await
}

async fn unusual_threads(saver: Saver) -> Outcome {
    for name in UNUSUAL {
        first().thread(name).set("name", name).put(&saver).await?;
    }
    for name in UNUSUAL {
        let id = head(&saver, name, ROOT).await?.ok_or_else(|| missing(name))?;
        holds_at(&saver, &place_in(name, ROOT, id), json!({"name": name})).await?;
    }
    let mut found = saver.threads().await?;
    found.sort();
    same("the threads", found, sorted_unusual())
}

async fn counted(saver: Saver) -> Outcome {
    for (namespace, n) in [("node:2", 3), ("", 2), ("node:1", 1)] {
        chain_like(&saver, &first().namespace(namespace), n).await?;
    }
    let expected = [("", 2), ("node:1", 1), ("node:2", 3)].map(|(name, n)| (name.to_owned(), n));
    same("the namespaces", saver.namespaces(THREAD).await?, expected.into())
}

async fn of_unknown(saver: Saver) -> Outcome {
    chain(&saver, 1).await?;
    same("the namespaces", saver.namespaces("other").await?, vec![])
}

async fn of_thread(saver: Saver) -> Outcome {
    first().thread("one").namespace("x:1").put(&saver).await?;
    first().thread("two").namespace("y:1").put(&saver).await?;
    same("the namespaces", saver.namespaces("one").await?, vec![("x:1".to_owned(), 1)])
}

async fn prefixes(saver: Saver) -> Outcome {
    for (idx, namespace) in ["", "a:1", "a:1|b:2", "a:12"].into_iter().enumerate() {
        first().namespace(namespace).set("n", idx).put(&saver).await?;
    }
    for (idx, namespace) in ["", "a:1", "a:1|b:2", "a:12"].into_iter().enumerate() {
        let id = head(&saver, THREAD, namespace).await?.ok_or_else(|| missing(namespace))?;
        holds_at(&saver, &place_in(THREAD, namespace, id), json!({"n": idx})).await?;
    }
    Ok(())
}

async fn unusual_namespaces(saver: Saver) -> Outcome {
    for name in UNUSUAL {
        first().namespace(name).set("name", name).put(&saver).await?;
    }
    for name in UNUSUAL {
        let id = head(&saver, THREAD, name).await?.ok_or_else(|| missing(name))?;
        holds_at(&saver, &place_in(THREAD, name, id), json!({"name": name})).await?;
    }
    let mut found: Vec<_> = saver.namespaces(THREAD).await?.into_iter().map(|it| it.0).collect();
    found.sort();
    same("the namespaces", found, sorted_unusual())
}

async fn refused_not_counted(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    same("a late writer is refused", after(ids[0]).put(&saver).await.is_err(), true)?;
    same("the namespaces", saver.namespaces(THREAD).await?, vec![(ROOT.to_owned(), 2)])
}

fn sorted_unusual() -> Vec<String> {
    let mut names = UNUSUAL.map(str::to_owned);
    names.sort();
    names.into()
}

fn missing(name: &str) -> Problem {
    Problem::differs("reading", &name, &"nothing")
}
