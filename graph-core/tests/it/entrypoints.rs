//! Entrypoints, which run a function as a graph.

use graph_core::{Context, Entrypoint, EntrypointOutcome, Final, MemorySaver, NodeError, RunError};

use crate::support::{InjectedError, Probe, failed_node};

#[tokio::test]
async fn a_function_runs_once_without_a_thread() {
    let double = Entrypoint::new("double", |n: u64, last: Option<u64>, _: Context| async move {
        assert_eq!(last, None);
        Ok(n * 2)
    });
    let double = double.compile().unwrap();
    assert_eq!(double.run(4, ()).await.unwrap(), 8);
    assert_eq!(double.run(5, ()).await.unwrap(), 10);
}

#[tokio::test]
async fn a_run_receives_the_last_result_of_its_thread() {
    let sum = Entrypoint::new("sum", |n: u64, last: Option<u64>, _: Context| async move {
        Ok(last.unwrap_or(0) + n)
    });
    let sum = sum.checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = sum.thread("t", ());
    assert_eq!(thread.run(1).await.unwrap().done(), Some(1));
    assert_eq!(thread.run(2).await.unwrap().done(), Some(3));
    assert_eq!(sum.thread("other", ()).run(5).await.unwrap().done(), Some(5));
}

#[tokio::test]
async fn the_saved_value_may_differ_from_the_output() {
    let log =
        Entrypoint::new("log", |line: String, last: Option<Vec<String>>, _: Context| async move {
            let mut save = last.unwrap_or_default();
            save.push(line);
            Ok(Final { value: save.len(), save })
        });
    let log = log.checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = log.thread("t", ());
    assert_eq!(thread.run("a".into()).await.unwrap().done(), Some(1));
    assert_eq!(thread.run("b".into()).await.unwrap().done(), Some(2));
}

/// Makes two journaled calls with an interrupt between them, and fails at the end if the probe requests a failure.
async fn program(n: u32, cx: &Context<Probe>) -> Result<String, NodeError> {
    let enter = |name: &'static str| async move {
        cx.deps().enter(cx.step(), name).await?;
        Ok(name.to_owned())
    };
    let first: String = cx.task("first", n, enter("first")).await?;
    let name: String = cx.interrupt("who?")?;
    let second: String = cx.task("second", n, enter("second")).await?;
    cx.deps().enter(cx.step(), "end").await?;
    Ok(format!("{first} {name} {second}"))
}

#[tokio::test]
async fn interrupts_and_failures_do_not_repeat_calls() {
    let probe = Probe::default();
    let entry =
        Entrypoint::new("program", |n: u32, _: Option<String>, cx: Context<Probe>| async move {
            program(n, &cx).await
        });
    let entry = entry.checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = entry.thread("t", probe.clone());
    let EntrypointOutcome::Interrupted(asked) = thread.run(1).await.unwrap() else {
        panic!("expected an interrupt")
    };
    assert_eq!(asked[0].value, "who?");
    probe.fail_next("end", 1);
    let error = thread.resume("Ada").await.unwrap_err();
    assert_eq!(failed_node(&error), "entrypoint");
    assert!(error.node_error::<InjectedError>().is_some());
    assert_eq!(thread.proceed().await.unwrap().done().as_deref(), Some("first Ada second"));
    assert_eq!(probe.trace(), "1: end end first second");
}

#[tokio::test]
async fn a_failed_run_keeps_the_saved_value() {
    let entry = Entrypoint::new("odd", |n: u32, last: Option<u32>, _: Context| async move {
        if n.is_multiple_of(2) { Err("even".into()) } else { Ok(last.unwrap_or(0) + n) }
    });
    let entry = entry.checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = entry.thread("t", ());
    assert_eq!(thread.run(1).await.unwrap().done(), Some(1));
    thread.run(2).await.unwrap_err();
    assert_eq!(thread.run(3).await.unwrap().done(), Some(4));
}

#[tokio::test]
async fn an_entrypoint_with_checkpointer_needs_a_thread() {
    let entry = Entrypoint::new("one", |n: u32, _: Option<u32>, _: Context| async move { Ok(n) });
    let entry = entry.checkpointer(MemorySaver::new()).compile().unwrap();
    assert!(matches!(entry.run(1, ()).await, Err(RunError::MissingThread)));
    let thread = entry.thread("t", ());
    assert!(matches!(thread.proceed().await, Err(RunError::EmptyInput)));
}
