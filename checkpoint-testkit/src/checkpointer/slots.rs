//! Slots: each task keeps one record per slot, either the first or the last.

use graph_core::{
    Interrupt,
    checkpoint::{TaskEvent, TaskRecord},
};
use serde_json::json;

use super::support::*;

checks! {
    "slots: a second `done` event is ignored" => keeps_first(done(1), done(2)),
    "slots: a second effect with the same key is ignored" => keeps_first(effect("k", 1), effect("k", 2)),
    "slots: a second command of a run is ignored" => keeps_first(command("r", 1), command("r", 2)),
    "slots: a second failure replaces the first" => keeps_last(failed("one"), failed("two")),
    "slots: a second interrupt replaces the first" => keeps_last(interrupted("one"), interrupted("two")),
    "slots: second resume values replace the first" => keeps_last(resumed("one"), resumed("two")),
    "slots: effects with different keys are both kept" =>
        keeps_all(vec![record("a", effect("k", 1)), record("a", effect("l", 2))]),
    "slots: an effect with an empty key has its own slot" =>
        keeps_all(vec![record("a", effect("", 1)), record("a", effect("k", 2))]),
    "slots: keys are case-sensitive" =>
        keeps_all(vec![record("a", effect("k", 1)), record("a", effect("K", 2))]),
    "slots: commands of different runs are both kept" =>
        keeps_all(vec![record("a", command("r", 1)), record("a", command("s", 2))]),
    "slots: different kinds of events of a task are all kept" => keeps_all(kinds()),
    "slots: two tasks have their own slots" =>
        keeps_all(vec![record("a", done(1)), record("b", done(2)), record("ab", done(3))]),
    "slots: two tasks of one node have their own slots" => keeps_all(one_node()),
    "slots: the first of two `done` events in one call is kept" => within_one_call(),
    "slots: a later failure does not replace the result" => failed_after_done(),
    "slots: each checkpoint has its own slots" => own_checkpoint(),
    "slots: the first `done` event is kept even if its checkpoint is stored later" => before_checkpoint(),
}

fn failed(error: &str) -> TaskEvent {
    TaskEvent::Failed { error: error.to_owned(), handled: false }
}

fn interrupted(id: &str) -> TaskEvent {
    let interrupt = Interrupt { id: id.to_owned(), value: json!(id), namespace: String::new() };
    TaskEvent::Interrupted { interrupts: vec![interrupt] }
}

fn resumed(value: &str) -> TaskEvent {
    TaskEvent::Resumed { values: vec![json!(value)] }
}

fn command(run: &str, value: i64) -> TaskEvent {
    TaskEvent::Command {
        run: run.to_owned(),
        writes: vec![write("a", value)],
        gotos: vec![],
        pending: None,
    }
}

fn kinds() -> Vec<TaskRecord> {
    [effect("done", 1), interrupted("q"), resumed("a"), failed("e"), command("done", 1), done(1)]
        .map(|event| record("a", event))
        .into()
}

fn one_node() -> Vec<TaskRecord> {
    let mut records = vec![record("a", done(1)), record("b", done(2))];
    records[1].node = "a".to_owned();
    records
}

async fn recorded(saver: &Saver, records: Vec<TaskRecord>) -> CheckResult<Vec<TaskRecord>> {
    let id = first().put(saver).await?;
    for record in records {
        saver.record(&key(id), vec![record]).await?;
    }
    Ok(read(saver, id).await?.records)
}

async fn keeps_first(saver: Saver, one: TaskEvent, two: TaskEvent) -> CheckResult {
    let found = recorded(&saver, vec![record("a", one.clone()), record("a", two)]).await?;
    expect_eq("the records", found, vec![record("a", one)])
}

async fn keeps_last(saver: Saver, one: TaskEvent, two: TaskEvent) -> CheckResult {
    let found = recorded(&saver, vec![record("a", one), record("a", two.clone())]).await?;
    expect_eq("the records", found, vec![record("a", two)])
}

async fn keeps_all(saver: Saver, records: Vec<TaskRecord>) -> CheckResult {
    expect_eq("the records", recorded(&saver, records.clone()).await?, records)
}

async fn within_one_call(saver: Saver) -> CheckResult {
    let id = first().put(&saver).await?;
    let records = [failed("x"), done(1), failed("y"), done(2)].map(|it| record("a", it));
    saver.record(&key(id), records.into()).await?;
    let mut found: Vec<_> =
        read(&saver, id).await?.records.into_iter().map(|it| it.event).collect();
    // The events are sorted, because a saver may return a replaced record at any position.
    found.sort_by_key(TaskEvent::slot);
    expect_eq("the records", found, vec![done(1), failed("y")])
}

async fn failed_after_done(saver: Saver) -> CheckResult {
    let records = vec![record("a", done(1)), record("a", failed("late"))];
    keeps_all(saver, records).await
}

async fn own_checkpoint(saver: Saver) -> CheckResult {
    let ids = chain(&saver, 2).await?;
    for (id, value) in ids.iter().zip([1, 2]) {
        saver.record(&key(*id), vec![record("a", done(value))]).await?;
    }
    for (id, value) in ids.iter().zip([1, 2]) {
        let found = read(&saver, *id).await?.records;
        expect_eq("the records", found, vec![record("a", done(value))])?;
    }
    Ok(())
}

async fn before_checkpoint(saver: Saver) -> CheckResult {
    let draft = first();
    saver.record(&draft.0.key, vec![record("a", done(1))]).await?;
    let id = draft.put(&saver).await?;
    saver.record(&key(id), vec![record("a", done(2))]).await?;
    expect_eq("the records", read(&saver, id).await?.records, vec![record("a", done(1))])
}
