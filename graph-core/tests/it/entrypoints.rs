//! Entrypoints, which run a function as a graph.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use graph_core::{
    CachePolicy, Context, Entrypoint, EntrypointOutcome, EventKind, Final, MemoryCache,
    MemorySaver, NodeError, RunError, RunOptions, StreamMode, TaskOptions,
};

use crate::support::{InjectedError, Probe, failed_node};

#[tokio::test]
async fn a_function_runs_once_without_a_thread() {
    let double = Entrypoint::new("double", |n: u64, last: Option<u64>, _: Context| async move {
        assert_eq!(last, None);
        Ok(n * 2)
    });
    let double = double.compile().unwrap();
    assert_eq!(double.invoke(4, ()).await.unwrap(), 8);
    assert_eq!(double.invoke(5, ()).await.unwrap(), 10);
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
    assert!(matches!(entry.invoke(1, ()).await, Err(RunError::MissingThread)));
    let thread = entry.thread("t", ());
    assert!(matches!(thread.proceed().await, Err(RunError::EmptyInput)));
}

#[tokio::test]
async fn a_thread_can_be_streamed_inspected_and_edited() {
    let counter =
        Entrypoint::new("counter", |add: u64, last: Option<u64>, _: Context| async move {
            Ok(last.unwrap_or(0) + add)
        });
    let counter = counter.checkpointer(MemorySaver::new()).compile().unwrap();
    let options = RunOptions::new().stream_modes([StreamMode::Updates]);
    let thread = counter.thread("t", ()).with_options(options);
    assert_eq!(thread.saved::<u64>().await.unwrap(), None);

    let mut events = thread.stream(5).unwrap();
    let mut updates = 0;
    while let Some(event) = events.next().await {
        updates += u32::from(matches!(event.kind, EventKind::Update { .. }));
    }
    assert_eq!((updates, thread.saved::<u64>().await.unwrap()), (1, Some(5)));

    thread.save(100).await.unwrap();
    assert_eq!(thread.run(1).await.unwrap().done(), Some(101));
    assert_eq!(thread.thread().history(None).await.unwrap().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn journaled_calls_are_retried_timed_out_and_cached() {
    let made = Arc::new(AtomicU32::new(0));
    let counter = made.clone();
    let fetch = Entrypoint::new("fetch", move |key: String, _: Option<u32>, cx: Context| {
        let made = counter.clone();
        async move {
            let options = TaskOptions::new()
                .retry(3)
                .timeout(Duration::from_secs(5))
                .cache(CachePolicy::new());
            let call = || async {
                match made.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(NodeError::from("overloaded")),
                    1 => std::future::pending().await,
                    number => Ok(number),
                }
            };
            cx.task_with(options, "fetch", key, call).await
        }
    });
    let fetch = fetch.cache(MemoryCache::new()).compile().unwrap();
    // The first attempt fails, the second one times out.
    assert_eq!(fetch.invoke("a".into(), ()).await.unwrap(), 2);
    assert_eq!(fetch.invoke("a".into(), ()).await.unwrap(), 2, "the result is cached");
    assert_eq!(fetch.invoke("b".into(), ()).await.unwrap(), 3);
    assert_eq!(made.load(Ordering::Relaxed), 4);
}

async fn title(cx: &Context) -> Result<String, NodeError> {
    let options = TaskOptions::new().cache(CachePolicy::new());
    cx.task_with(options, "fetch", 7, || async { Ok("title".to_owned()) }).await
}

async fn author(cx: &Context) -> Result<String, NodeError> {
    let options = TaskOptions::new().cache(CachePolicy::new());
    cx.task_with(options, "fetch", 7, || async { Ok("author".to_owned()) }).await
}

#[tokio::test]
async fn calls_of_different_functions_do_not_share_cached_results() {
    let cache = MemoryCache::new();
    let titles = Entrypoint::new("titles", |_: (), _: Option<String>, cx: Context| async move {
        title(&cx).await
    });
    let authors = Entrypoint::new("authors", |_: (), _: Option<String>, cx: Context| async move {
        author(&cx).await
    });
    let titles = titles.cache(cache.clone()).compile().unwrap();
    let authors = authors.cache(cache).compile().unwrap();
    assert_eq!(titles.invoke((), ()).await.unwrap(), "title");
    assert_eq!(authors.invoke((), ()).await.unwrap(), "author");
}
