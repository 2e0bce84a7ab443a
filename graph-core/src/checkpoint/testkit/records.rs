//! Records: what happened to tasks is kept with the checkpoint that their step follows.

use serde_json::json;

use super::support::*;
use crate::{
    FieldWrite, Interrupt,
    checkpoint::{CheckpointId, Event, GotoRecord, TaskId, TaskRecord},
};

checks! {
    "records: a finished task reads back" => reads_back(record("a", finished())),
    "records: a task that did nothing reads back" =>
        reads_back(record("a", Event::Done { writes: vec![], gotos: vec![] })),
    "records: a failed task reads back" =>
        reads_back(record("a", Event::Failed { error: "it\nfailed".to_owned(), handled: true })),
    "records: a question reads back" => reads_back(record("a", asked())),
    "records: an answer reads back" =>
        reads_back(record("a", Event::Answered { answers: vec![json!(null), json!("yes")] })),
    "records: a command reads back" => reads_back(command()),
    "records: an effect reads back" => reads_back(record("a", effect("charge/7", json!({"ok": true})))),
    "records: they come in the order recorded within one call" => ordered_in_one_call(),
    "records: they come in the order recorded over several calls" => ordered_over_calls(),
    "records: commands come in the order given" => commands_in_order(),
    "records: they may come before their checkpoint" => before_checkpoint(),
    "records: without a checkpoint there is nothing to read" => no_checkpoint(),
    "records: they do not show at the next checkpoint" => not_at_next(),
    "records: they do not show in another namespace" => not_elsewhere(first().namespace("child:1")),
    "records: they do not show in another thread" => not_elsewhere(first().thread("other")),
    "records: a checkpoint that is not the newest takes them too" => at_older(),
    "records: they do not change the values" => values_stay(),
    "records: they do not move the head" => head_stays(),
    "records: an empty list of them is no error" => empty(),
    "records: 500 of them are kept" => many(),
}

fn finished() -> Event {
    let writes = vec![
        write("b", json!([1, 2])),
        FieldWrite { field: "a".to_owned(), value: json!(null), overwrite: true },
        write("b", "again"),
    ];
    let gotos = vec![
        goto("y"),
        GotoRecord { to: "x".to_owned(), payload: Some(json!({"k": [1]})) },
        goto("y"),
    ];
    Event::Done { writes, gotos }
}

fn asked() -> Event {
    let ask = |id: &str, value| Interrupt {
        id: id.to_owned(),
        value,
        namespace: "outer:1|inner:2".to_owned(),
    };
    Event::Asked { interrupts: vec![ask("2", json!("sure?")), ask("1", json!({"n": 1}))] }
}

fn command() -> TaskRecord {
    command_of("run")
}

fn command_of(run: &str) -> TaskRecord {
    let event =
        Event::Command { run: run.to_owned(), writes: vec![write("a", 1)], gotos: vec![goto("b")] };
    TaskRecord { task: TaskId::COMMAND, node: String::new(), event }
}

async fn reads_back(saver: Saver, record: TaskRecord) -> Outcome {
    let id = first().put(&saver).await?;
    saver.record(&place(id), vec![record.clone()]).await?;
    same("the records", read(&saver, id).await?.records, vec![record])
}

fn mixed() -> Vec<TaskRecord> {
    vec![
        record("z", done(1)),
        record("a", asked()),
        record("m", effect("k", 1)),
        record("a", effect("k", 2)),
        record("z", effect("j", 3)),
        command(),
        record("b", done(4)),
    ]
}

async fn ordered_in_one_call(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    saver.record(&place(id), mixed()).await?;
    same("the records", read(&saver, id).await?.records, mixed())
}

async fn ordered_over_calls(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    for record in mixed() {
        saver.record(&place(id), vec![record]).await?;
    }
    same("the records", read(&saver, id).await?.records, mixed())
}

async fn commands_in_order(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    let commands = ["c", "a", "b"].map(command_of);
    for command in &commands {
        saver.record(&place(id), vec![command.clone()]).await?;
    }
    same("the records", read(&saver, id).await?.records, commands.into())
}

async fn before_checkpoint(saver: Saver) -> Outcome {
    let draft = first().set("a", 1);
    saver.record(&draft.0.place, mixed()).await?;
    let id = draft.put(&saver).await?;
    same("the records", read(&saver, id).await?.records, mixed())?;
    holds(&saver, id, json!({"a": 1})).await
}

async fn no_checkpoint(saver: Saver) -> Outcome {
    let id = CheckpointId::next();
    saver.record(&place(id), mixed()).await?;
    absent(&saver, &place(id)).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, None)?;
    same("the checkpoints", ids(&saver, &history()).await?, vec![])
}

async fn not_at_next(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    saver.record(&place(id), mixed()).await?;
    let next = after(id).put(&saver).await?;
    same("the records of the next", read(&saver, next).await?.records, vec![])?;
    same("the records", read(&saver, id).await?.records, mixed())
}

async fn not_elsewhere(saver: Saver, mut elsewhere: Draft) -> Outcome {
    let here = first().put(&saver).await?;
    elsewhere.0.place.id = here;
    let there = elsewhere.0.place.clone();
    elsewhere.put(&saver).await?;
    saver.record(&place(here), vec![record("a", done(1))]).await?;
    same("the other's records", read_at(&saver, &there).await?.records, vec![])?;
    saver.record(&there, vec![record("a", done(2))]).await?;
    same("the records", read(&saver, here).await?.records, vec![record("a", done(1))])
}

async fn at_older(saver: Saver) -> Outcome {
    let ids = chain(&saver, 3).await?;
    saver.record(&place(ids[0]), mixed()).await?;
    same("the records", read(&saver, ids[0]).await?.records, mixed())?;
    same("the records of the newest", read(&saver, ids[2]).await?.records, vec![])
}

async fn values_stay(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    saver.record(&place(ids[1]), vec![record("a", finished())]).await?;
    holds(&saver, ids[1], logged(1)).await
}

async fn head_stays(saver: Saver) -> Outcome {
    let chain = chain(&saver, 2).await?;
    saver.record(&place(CheckpointId::next()), mixed()).await?;
    same("the head", head(&saver, THREAD, ROOT).await?, Some(chain[1]))?;
    after(chain[1]).put(&saver).await?;
    Ok(())
}

async fn empty(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    saver.record(&place(id), vec![]).await?;
    same("the records", read(&saver, id).await?.records, vec![])
}

async fn many(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    let records: Vec<_> = (0..500).map(|n| record(&format!("task {n}"), done(n))).collect();
    for part in records.chunks(100) {
        saver.record(&place(id), part.to_vec()).await?;
    }
    same("the records", read(&saver, id).await?.records, records)
}
