//! Reading one checkpoint: the addressed one or the newest, and nothing else.

use serde_json::Value;

use super::support::*;
use crate::checkpoint::{CheckpointId, Lookup};

checks! {
    "get: an unknown thread has no newest checkpoint" => nothing(Lookup::head("other", ROOT)),
    "get: an unknown namespace has no newest checkpoint" => nothing(Lookup::head(THREAD, "child:1")),
    "get: an unknown id is nothing" => nothing(Lookup::exact(THREAD, ROOT, CheckpointId::next())),
    "get: an id between two others is nothing" => between(),
    "get: an id of another namespace is nothing" => elsewhere(first().namespace("child:1")),
    "get: an id of another thread is nothing" => elsewhere(first().thread("other")),
    "get: without an id it is the newest" => newest(),
    "get: with an id it is that one" => exact(),
    "get: the place names the namespace" => names_place(),
    "get: the newest brings its records" => records(),
    "get: reading changes nothing" => twice(),
}

async fn nothing(saver: Saver, at: Lookup) -> Outcome {
    chain(&saver, 2).await?;
    same("the checkpoint", saver.get(&at).await?.map(|it| it.place), None)
}

async fn between(saver: Saver) -> Outcome {
    let first = first().put(&saver).await?;
    let between = CheckpointId::next();
    after(first).put(&saver).await?;
    absent(&saver, &place(between)).await
}

async fn elsewhere(saver: Saver, elsewhere: Draft) -> Outcome {
    first().put(&saver).await?;
    let id = elsewhere.put(&saver).await?;
    absent(&saver, &place(id)).await
}

async fn newest(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    let found = saver.get(&Lookup::head(THREAD, ROOT)).await?;
    same("the place", found.as_ref().map(|it| &it.place), Some(&place(ids[2])))?;
    same("the values", found.map(|it| Value::Object(it.values)), Some(logged(2)))
}

async fn exact(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    for (idx, id) in ids.into_iter().enumerate() {
        same("the place", read(&saver, id).await?.place, place(id))?;
        holds(&saver, id, logged(idx)).await?;
    }
    Ok(())
}

async fn names_place(saver: Saver) -> Outcome {
    let id = first().thread("t").namespace("child:1").put(&saver).await?;
    let place = place_in("t", "child:1", id);
    let found = saver.get(&Lookup::head("t", "child:1")).await?;
    same("the place", found.map(|it| it.place), Some(place))
}

async fn records(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    let records = vec![record("b", done(1)), record("a", done(2))];
    saver.record(&place(ids[1]), records.clone()).await?;
    let found = saver.get(&Lookup::head(THREAD, ROOT)).await?;
    same("the records", found.map(|it| it.records), Some(records))
}

async fn twice(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    for _ in 0..3 {
        holds(&saver, ids[2], logged(2)).await?;
    }
    holds(&saver, ids[1], logged(1)).await
}
