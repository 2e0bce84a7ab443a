//! Putting checkpoints: all that was put is read back, and putting twice is putting once.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::support::*;
use crate::checkpoint::{
    CheckpointError, CheckpointId, Cursor, Header, Keep, SendRecord, Source, StartRecord,
};

checks! {
    "put: a checkpoint reads back as it was put" => reads_back(),
    "put: a checkpoint without fields has no values" => no_fields(),
    "put: no parent stays no parent" => keeps(first()),
    "put: the parent is kept" => keeps(first().header(|it| it.parent = Some(CheckpointId::next()))),
    "put: an origin apart from the parent is kept" => keeps(first().header(|it| {
        it.parent = Some(CheckpointId::next());
        it.origin = CheckpointId::next();
    })),
    "put: the step -1 is kept" => keeps(first().header(|it| it.step = -1)),
    "put: the largest step is kept" => keeps(first().header(|it| it.step = i64::MAX)),
    "put: the source input is kept" => keeps(first().source(Source::Input)),
    "put: the source loop is kept" => keeps(first().source(Source::Loop)),
    "put: the source update is kept" => keeps(first().source(Source::Update)),
    "put: the source fork is kept" => keeps(first().source(Source::Fork)),
    "put: the time of making is kept to the nanosecond" => keeps(first().header(precise_time)),
    "put: the run is kept" => keeps(first().run("a run, \"quoted\"")),
    "put: the version of the stored form is kept" => keeps(first().header(|it| it.version = u32::MAX)),
    "put: the checkpoints of the graphs around are kept" => keeps(first().header(parents)),
    "put: metadata is kept" => keeps(first().metadata(json!({"user": "ada", "tags": ["a", {"b": null}]}))),
    "put: every part of the cursor is kept" => keeps_cursor(),
    "put: a second time is no error and changes nothing" => twice(),
    "put: a second time is no error after the thread has moved on" => twice_later(),
    "put: a second time does not extend a list again" => twice_extended(),
    "put: a second time keeps what the first one said" => second_differs(),
    "put: one of the same id and another run is refused" => of_another_run(),
    "put: one that is older than the head is refused" => older_than_the_head(),
    "put: a second time leaves the records alone" => second_keeps_records(),
    "put: an unknown base is refused" => unknown_base(),
    "put: a base of another namespace is unknown" => base_elsewhere(first().namespace("child:1")),
    "put: a base of another thread is unknown" => base_elsewhere(first().thread("other")),
    "put: a base that was pruned is unknown" => base_pruned(),
    "put: an id may stand in several threads and namespaces" => same_id_elsewhere(),
}

async fn reads_back(saver: Saver) -> Outcome {
    let draft = first().set("a", 1).set("b", "two");
    saver.put(draft.0.clone()).await?;

    let found = read(&saver, draft.id()).await?;
    same("the place", found.place, draft.0.place)?;
    same("the header", found.header, draft.0.header)?;
    same("the cursor", found.cursor, draft.0.cursor)?;
    same("the records", found.records, vec![])?;
    same("the values", found.values, object(json!({"a": 1, "b": "two"})))
}

async fn no_fields(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    holds(&saver, id, json!({})).await
}

async fn keeps(saver: Saver, draft: Draft) -> Outcome {
    saver.put(draft.0.clone()).await?;
    same("the header", read(&saver, draft.id()).await?.header, draft.0.header)
}

fn precise_time(header: &mut Header) {
    header.created_at = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
}

fn parents(header: &mut Header) {
    header.parents = ["", "outer:1", "outer:1|inner:2"]
        .map(|namespace| (namespace.to_owned(), CheckpointId::next()))
        .into();
}

async fn keeps_cursor(saver: Saver) -> Outcome {
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let mut draft = first();
    draft.0.cursor = Cursor {
        version: u64::MAX,
        seen: 7,
        ran: names(&["b", "a"]),
        armed: names(&["c"]),
        held: names(&["d", "e"]),
        released: names(&["f"]),
        joins: [("a+b".to_owned(), names(&["a"])), ("c+d".to_owned(), vec![])].into(),
        sends: [json!(2), json!(null), json!({"deep": [1.5]})]
            .map(|payload| SendRecord { node: "worker".to_owned(), payload })
            .into(),
        input: Some(StartRecord { writes: vec![write("x", 1)], gotos: vec![goto("a")] }),
    };
    saver.put(draft.0.clone()).await?;
    same("the cursor", read(&saver, draft.id()).await?.cursor, draft.0.cursor)
}

async fn twice(saver: Saver) -> Outcome {
    let draft = first().set("a", 1);
    draft.clone().put(&saver).await?;
    let id = draft.put(&saver).await?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![id])?;
    holds(&saver, id, json!({"a": 1})).await
}

async fn twice_later(saver: Saver) -> Outcome {
    let draft = first().set("a", 1);
    let id = draft.clone().put(&saver).await?;
    let next = after(id).set("a", 2).put(&saver).await?;
    draft.put(&saver).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(next))?;
    holds(&saver, next, json!({"a": 2})).await
}

async fn twice_extended(saver: Saver) -> Outcome {
    let base = first().extend("list", [1]).put(&saver).await?;
    let draft = after(base).extend("list", [2]);
    draft.clone().put(&saver).await?;
    let id = draft.put(&saver).await?;
    holds(&saver, id, json!({"list": [1, 2]})).await?;
    let next = after(id).extend("list", [3]).put(&saver).await?;
    holds(&saver, next, json!({"list": [1, 2, 3]})).await
}

async fn second_differs(saver: Saver) -> Outcome {
    let draft = first().run("one");
    draft.clone().set("a", 1).put(&saver).await?;
    let id = draft.set("a", 2).put(&saver).await?;
    holds(&saver, id, json!({"a": 1})).await
}

async fn of_another_run(saver: Saver) -> Outcome {
    let draft = first().run("one");
    let id = draft.clone().set("a", 1).put(&saver).await?;
    refused!(draft.set("a", 2).run("two").put(&saver).await, CheckpointError::HeadMoved { .. });
    holds(&saver, id, json!({"a": 1})).await
}

async fn older_than_the_head(saver: Saver) -> Outcome {
    let older = first();
    let head = first().put(&saver).await?;
    let late = older.expecting(head);
    let id = late.id();
    refused!(late.put(&saver).await, CheckpointError::NotNewer { id: found, .. } if *found == id);
    same("the head", ids(&saver, &history()).await?, vec![head])
}

async fn second_keeps_records(saver: Saver) -> Outcome {
    let draft = first();
    let id = draft.clone().put(&saver).await?;
    let records = vec![record("a", done(1))];
    saver.record(&place(id), records.clone()).await?;
    draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, records)
}

async fn unknown_base(saver: Saver) -> Outcome {
    let head = first().put(&saver).await?;
    let unknown = CheckpointId::next();
    let draft = after(head).based_on(unknown).extend("list", [1]);
    refused!(
        saver.put(draft.0.clone()).await,
        CheckpointError::UnknownCheckpoint { id, .. } if *id == unknown
    );
    absent(&saver, &draft.0.place).await?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![head])
}

async fn base_elsewhere(saver: Saver, elsewhere: Draft) -> Outcome {
    let base = elsewhere.set("a", 1).put(&saver).await?;
    let draft = first().based_on(base);
    refused!(saver.put(draft.0).await, CheckpointError::UnknownCheckpoint { id, .. } if *id == base);
    Ok(())
}

async fn base_pruned(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    saver.prune(&[THREAD.to_owned()], Keep::Newest(1)).await?;
    let draft = after(ids[1]).based_on(ids[0]);
    refused!(saver.put(draft.0).await, CheckpointError::UnknownCheckpoint { id, .. } if *id == ids[0]);
    Ok(())
}

async fn same_id_elsewhere(saver: Saver) -> Outcome {
    let draft = first();
    let places = [("x", ""), ("x", "child:1"), ("y", "")];
    for (idx, (thread, namespace)) in places.into_iter().enumerate() {
        let draft = draft.clone().thread(thread).namespace(namespace);
        draft.set("n", idx).put(&saver).await?;
    }
    for (idx, (thread, namespace)) in places.into_iter().enumerate() {
        holds_at(&saver, &place_in(thread, namespace, draft.id()), json!({"n": idx})).await?;
    }
    Ok(())
}
