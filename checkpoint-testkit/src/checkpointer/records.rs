//! Records: task events are stored with the checkpoint that precedes the task's step.

use graph_core::{
    FieldWrite, Interrupt,
    checkpoint::{CheckpointId, GotoRecord, TaskEvent, TaskId, TaskRecord},
};
use serde_json::json;

use super::support::*;

checks! {
    "records: a finished task reads back unchanged" => reads_back(record("a", finished())),
    "records: a task without writes and targets reads back unchanged" =>
        reads_back(record("a", TaskEvent::Done { writes: vec![], gotos: vec![] })),
    "records: a failed task reads back unchanged" =>
        reads_back(record("a", TaskEvent::Failed { error: "line one\nline two".to_owned(), handled: true })),
    "records: an interrupt reads back unchanged" => reads_back(record("a", interrupted())),
    "records: resume values read back unchanged" =>
        reads_back(record("a", TaskEvent::Resumed { values: vec![json!(null), json!("yes")] })),
    "records: a command reads back unchanged" => reads_back(command()),
    "records: an effect reads back unchanged" => reads_back(record("a", effect("charge/7", json!({"ok": true})))),
    "records: the order within one call is kept" => ordered_in_one_call(),
    "records: the order across calls is kept" => ordered_over_calls(),
    "records: the order of commands is kept" => commands_in_order(),
    "records: they may be stored before their checkpoint" => before_checkpoint(),
    "records: they are not readable without their checkpoint" => no_checkpoint(),
    "records: they do not appear at the next checkpoint" => not_at_next(),
    "records: they do not appear in another namespace" => not_elsewhere(first().namespace("child:1")),
    "records: they do not appear in another thread" => not_elsewhere(first().thread("other")),
    "records: they can be added to an older checkpoint" => at_older(),
    "records: they do not change the values" => values_stay(),
    "records: they do not move the head" => head_stays(),
    "records: an empty list is not an error" => empty(),
    "records: 500 of them are kept" => many(),
}

fn finished() -> TaskEvent {
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
    TaskEvent::Done { writes, gotos }
}

fn interrupted() -> TaskEvent {
    let interrupt = |id: &str, value| Interrupt {
        id: id.to_owned(),
        value,
        namespace: "outer:1|inner:2".to_owned(),
    };
    TaskEvent::Interrupted {
        interrupts: vec![interrupt("2", json!("sure?")), interrupt("1", json!({"n": 1}))],
    }
}

fn command() -> TaskRecord {
    command_of("run")
}

fn command_of(run: &str) -> TaskRecord {
    let event = TaskEvent::Command {
        run: run.to_owned(),
        writes: vec![write("a", 1)],
        gotos: vec![goto("b")],
        pending: Some(vec!["i".to_owned()]),
    };
    TaskRecord { task: TaskId::COMMAND, node: String::new(), event }
}

async fn reads_back(saver: Saver, record: TaskRecord) -> CheckResult {
    let id = first().put(&saver).await?;
    saver.record(&key(id), vec![record.clone()]).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![record])
}

fn mixed() -> Vec<TaskRecord> {
    vec![
        record("z", done(1)),
        record("a", interrupted()),
        record("m", effect("k", 1)),
        record("a", effect("k", 2)),
        record("z", effect("j", 3)),
        command(),
        record("b", done(4)),
    ]
}

async fn ordered_in_one_call(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    saver.record(&key(id), mixed()).await?;
    expect_eq("the records", read(&saver, id).await?.records, mixed())
}

async fn ordered_over_calls(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    for record in mixed() {
        saver.record(&key(id), vec![record]).await?;
    }
    expect_eq("the records", read(&saver, id).await?.records, mixed())
}

async fn commands_in_order(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    let commands = ["c", "a", "b"].map(command_of);
    for command in &commands {
        saver.record(&key(id), vec![command.clone()]).await?;
    }
    expect_eq("the records", read(&saver, id).await?.records, commands.into())
}

async fn before_checkpoint(saver: Saver) -> CheckResult {
    let draft = first().set("a", 1);
    saver.record(&draft.0.key, mixed()).await?;
    let id = draft.put(&saver).await?;
    expect_eq("the records", read(&saver, id).await?.records, mixed())?;
    expect_values(&saver, id, json!({"a": 1})).await
}

async fn no_checkpoint(saver: Saver) -> CheckResult {
    let id = CheckpointId::next();
    saver.record(&key(id), mixed()).await?;
    expect_absent(&saver, &key(id)).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, None)?;
    expect_eq("the checkpoints", ids(&saver, &history()).await?, vec![])
}

async fn not_at_next(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    saver.record(&key(id), mixed()).await?;
    let next = after(id).put(&saver).await?;
    expect_eq("the records of the next checkpoint", read(&saver, next).await?.records, vec![])?;
    expect_eq("the records", read(&saver, id).await?.records, mixed())
}

async fn not_elsewhere(saver: Saver, mut elsewhere: Draft) -> CheckResult {
    let here = first().put(&saver).await?;
    elsewhere.0.key.id = here;
    let there = elsewhere.0.key.clone();
    elsewhere.put(&saver).await?;
    saver.record(&key(here), vec![record("a", done(1))]).await?;
    expect_eq("the other's records", read_at(&saver, &there).await?.records, vec![])?;
    saver.record(&there, vec![record("a", done(2))]).await?;
    expect_eq("the records", read(&saver, here).await?.records, vec![record("a", done(1))])
}

async fn at_older(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 3).await?;
    saver.record(&key(ids[0]), mixed()).await?;
    expect_eq("the records", read(&saver, ids[0]).await?.records, mixed())?;
    expect_eq("the records of the newest checkpoint", read(&saver, ids[2]).await?.records, vec![])
}

async fn values_stay(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    saver.record(&key(ids[1]), vec![record("a", finished())]).await?;
    expect_values(&saver, ids[1], chain_values(1)).await
}

async fn head_stays(saver: Saver) -> CheckResult {
    let chain = chain(&saver, 2).await?;
    saver.record(&key(CheckpointId::next()), mixed()).await?;
    expect_eq("the head", head(&saver, THREAD, ROOT).await?, Some(chain[1]))?;
    after(chain[1]).put(&saver).await?;
    Ok(())
}

async fn empty(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    saver.record(&key(id), vec![]).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![])
}

async fn many(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    let records: Vec<_> = (0..500).map(|n| record(&format!("task {n}"), done(n))).collect();
    for part in records.chunks(100) {
        saver.record(&key(id), part.to_vec()).await?;
    }
    expect_eq("the records", read(&saver, id).await?.records, records)
}
