//! Slots: one record of a kind is kept for each task, the first or the last.

use serde_json::json;

use super::support::*;
use crate::{
    Interrupt,
    checkpoint::{Event, TaskRecord},
};

checks! {
    "slots: a second done is ignored" => keeps_first(done(1), done(2)),
    "slots: a second effect of a key is ignored" => keeps_first(effect("k", 1), effect("k", 2)),
    "slots: a second command of a run is ignored" => keeps_first(command("r", 1), command("r", 2)),
    "slots: a second failure replaces the first" => keeps_last(failed("one"), failed("two")),
    "slots: a second question replaces the first" => keeps_last(asked("one"), asked("two")),
    "slots: a second answer replaces the first" => keeps_last(answered("one"), answered("two")),
    "slots: effects of two keys stand side by side" =>
        keeps_all(vec![record("a", effect("k", 1)), record("a", effect("l", 2))]),
    "slots: an effect whose key is empty has a slot" =>
        keeps_all(vec![record("a", effect("", 1)), record("a", effect("k", 2))]),
    "slots: keys that differ by case are two keys" =>
        keeps_all(vec![record("a", effect("k", 1)), record("a", effect("K", 2))]),
    "slots: commands of two runs stand side by side" =>
        keeps_all(vec![record("a", command("r", 1)), record("a", command("s", 2))]),
    "slots: the kinds of one task stand side by side" => keeps_all(kinds()),
    "slots: two tasks have their own slots" =>
        keeps_all(vec![record("a", done(1)), record("b", done(2)), record("ab", done(3))]),
    "slots: two tasks of one node have their own slots" => keeps_all(one_node()),
    "slots: the first of two dones in one call is kept" => within_one_call(),
    "slots: a failure recorded later leaves the result alone" => failed_after_done(),
    "slots: a slot is used up at its own checkpoint only" => own_checkpoint(),
    "slots: the first done is kept even before its checkpoint" => before_checkpoint(),
}

fn failed(error: &str) -> Event {
    Event::Failed { error: error.to_owned(), handled: false }
}

fn asked(id: &str) -> Event {
    let interrupt = Interrupt { id: id.to_owned(), value: json!(id), namespace: String::new() };
    Event::Asked { interrupts: vec![interrupt] }
}

fn answered(answer: &str) -> Event {
    Event::Answered { answers: vec![json!(answer)] }
}

fn command(run: &str, value: i64) -> Event {
    Event::Command { run: run.to_owned(), writes: vec![write("a", value)], gotos: vec![] }
}

fn kinds() -> Vec<TaskRecord> {
    [effect("done", 1), asked("q"), answered("a"), failed("e"), command("done", 1), done(1)]
        .map(|event| record("a", event))
        .into()
}

fn one_node() -> Vec<TaskRecord> {
    let mut records = vec![record("a", done(1)), record("b", done(2))];
    records[1].node = "a".to_owned();
    records
}

async fn recorded(saver: &Saver, records: Vec<TaskRecord>) -> Outcome<Vec<TaskRecord>> {
    let id = first().put(saver).await?;
    for record in records {
        saver.record(&place(id), vec![record]).await?;
    }
    Ok(read(saver, id).await?.records)
}

async fn keeps_first(saver: Saver, one: Event, two: Event) -> Outcome {
    let found = recorded(&saver, vec![record("a", one.clone()), record("a", two)]).await?;
    same("the records", found, vec![record("a", one)])
}

async fn keeps_last(saver: Saver, one: Event, two: Event) -> Outcome {
    let found = recorded(&saver, vec![record("a", one), record("a", two.clone())]).await?;
    same("the records", found, vec![record("a", two)])
}

async fn keeps_all(saver: Saver, records: Vec<TaskRecord>) -> Outcome {
    same("the records", recorded(&saver, records.clone()).await?, records)
}

async fn within_one_call(saver: Saver) -> Outcome {
    let id = first().put(&saver).await?;
    let records = [failed("x"), done(1), failed("y"), done(2)].map(|it| record("a", it));
    saver.record(&place(id), records.into()).await?;
    let mut found: Vec<_> =
        read(&saver, id).await?.records.into_iter().map(|it| it.event).collect();
    // A record that was replaced may keep its place or lose it.
    found.sort_by_key(Event::slot);
    same("the records", found, vec![done(1), failed("y")])
}

async fn failed_after_done(saver: Saver) -> Outcome {
    let records = vec![record("a", done(1)), record("a", failed("late"))];
    keeps_all(saver, records).await
}

async fn own_checkpoint(saver: Saver) -> Outcome {
    let ids = chain(&saver, 2).await?;
    for (id, value) in ids.iter().zip([1, 2]) {
        saver.record(&place(*id), vec![record("a", done(value))]).await?;
    }
    for (id, value) in ids.iter().zip([1, 2]) {
        let found = read(&saver, *id).await?.records;
        same("the records", found, vec![record("a", done(value))])?;
    }
    Ok(())
}

async fn before_checkpoint(saver: Saver) -> Outcome {
    let draft = first();
    saver.record(&draft.0.place, vec![record("a", done(1))]).await?;
    let id = draft.put(&saver).await?;
    saver.record(&place(id), vec![record("a", done(2))]).await?;
    same("the records", read(&saver, id).await?.records, vec![record("a", done(1))])
}
