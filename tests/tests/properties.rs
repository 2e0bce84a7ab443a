//! What must hold for every graph: a run's result depends on the graph and its input, and on nothing else.
//!
//! Each property makes random graphs ([`spec`]) and runs each in several ways ([`observe`]). Without a seed in
//! `GRAPH_SEED` a run of the file always makes the same graphs; with `GRAPH_NIGHTLY=1` it makes twenty times as many,
//! other ones each time, and a failure names the seed.

#[path = "properties/build.rs"]
mod build;
#[path = "properties/observe.rs"]
mod observe;
#[path = "properties/saver.rs"]
mod saver;
#[path = "properties/spec.rs"]
mod spec;
#[path = "properties/values.rs"]
mod values;

use std::{
    fmt::Debug,
    time::{SystemTime, UNIX_EPOCH},
};

use graph_core::{Durability, EventKind, Mode};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};
use serde_json::Value;

use observe::{
    Break, Next, Observation, Session, Setting, checkpoints, observe, observe_broken, on,
};
use spec::{Spec, Taste, specs};

type Checked = Result<(), TestCaseError>;

/// Checks a property on so many cases.
#[track_caller]
fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> Checked) {
    let nightly = std::env::var_os("GRAPH_NIGHTLY").is_some_and(|it| it == "1");
    let given = std::env::var("GRAPH_SEED").ok().and_then(|it| it.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let seed: u64 = given.unwrap_or_else(|| if nightly { now() } else { 1 });
    let config = Config {
        cases: if nightly { cases * 20 } else { cases },
        max_shrink_iters: 4096,
        max_shrink_time: 60_000,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(failure) = TestRunner::new(config).run(strategy, property) {
        panic!("{failure}\nGRAPH_SEED={seed} makes this case again");
    }
}

fn delays() -> impl Strategy<Value = Vec<u8>> {
    vec(0..6u8, 1..9)
}

fn durabilities() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)]
}

/// Compares ways to run a graph with the first of them.
fn same(spec: &Spec, settings: &[Setting]) -> Checked {
    let mut expected: Option<Observation> = None;
    for setting in settings {
        let got = observe(spec, setting);
        match &expected {
            None => expected = Some(got),
            Some(expected) => expected.agrees(&got, setting)?,
        }
    }
    Ok(())
}

fn stored(durability: Durability) -> Setting {
    Setting { saver: Some(durability), answers: true, ..Setting::default() }
}

#[test]
fn the_order_of_completion_does_not_matter() {
    let strategy = (specs(Taste::WILD), delays(), any::<bool>());
    check(64, &strategy, |(spec, delays, watched)| {
        let backwards = delays.iter().rev().copied().collect();
        let with = |delays| Setting { delays, watched, ..Setting::default() };
        same(&spec, &[with(Vec::new()), with(delays.clone()), with(backwards)])?;
        let with = |delays| Setting { delays, watched, ..stored(Durability::Async) };
        same(&spec, &[with(Vec::new()), with(delays)])
    });
}

#[test]
fn the_number_of_worker_threads_does_not_matter() {
    let strategy = (specs(Taste::WILD), delays(), option::of(durabilities()), any::<bool>());
    check(48, &strategy, |(spec, delays, saver, watched)| {
        let answers = saver.is_some();
        let with = |workers| {
            let delays = delays.clone();
            Setting { workers, saver, watched, delays, answers, ..Setting::default() }
        };
        same(&spec, &[None, Some(1), Some(2), Some(4)].map(with))
    });
}

fn settings() -> impl Strategy<Value = Setting> {
    let concurrency = option::of(1..4usize);
    (option::of(durabilities()), any::<bool>(), concurrency, delays()).prop_map(
        |(saver, watched, concurrency, delays)| Setting {
            saver,
            watched,
            concurrency,
            delays,
            ..Setting::default()
        },
    )
}

fn unseen(cases: u32, taste: Taste) {
    check(cases, &(specs(taste), vec(settings(), 4)), |(spec, mut settings)| {
        settings.insert(0, Setting::default());
        settings.push(Setting { watched: true, ..Setting::default() });
        settings.push(Setting { saver: Some(Durability::Sync), ..Setting::default() });
        same(&spec, &settings)
    });
}

#[test]
fn checkpoints_watchers_and_limits_on_concurrency_do_not_matter() {
    unseen(64, Taste::WILD);
}

#[test]
fn checkpoints_and_watchers_do_not_matter_to_a_loop_of_single_tasks() {
    unseen(96, Taste::LOOP);
}

#[test]
fn a_stop_and_a_new_start_do_not_matter() {
    let breaks = prop_oneof![
        Just(Break::Before),
        Just(Break::After),
        Just(Break::BeforeAndAfter),
        (0..8i64).prop_map(Break::Drain),
        (1..8u32).prop_map(Break::Limit),
        Just(Break::OneAnswer),
    ];
    let strategy = (specs(Taste::KEPT), vec(breaks, 1..4), durabilities(), delays());
    check(64, &strategy, |(spec, mut breaks, durability, delays)| {
        if spec.forgets() || (durability == Durability::Exit && spec.nests()) {
            // A graph that starts over once its steps are used up needs runs that are long enough.
            breaks.retain(|it| !matches!(it, Break::Limit(_)));
        }
        let expected = observe(&spec, &stored(Durability::Sync));
        let setting = Setting { delays, ..stored(durability) };
        let (got, repeated) = observe_broken(&spec, &setting, &breaks);
        agree_after_stops(&spec, &expected, &got, &breaks)?;
        prop_assert!(spec.forgets() || repeated.is_empty(), "ran again: {repeated:#?}");
        Ok(())
    });
}

/// What is sure to be the same however often a run was stopped.
///
/// A graph that keeps nothing of itself runs its tasks again, so only those of the graph around it count; and how
/// many tasks of the last step come to their end before an error shows is chance.
fn agree_after_stops(
    spec: &Spec,
    expected: &Observation,
    got: &Observation,
    how: &dyn Debug,
) -> Checked {
    let failed = expected.outcome.starts_with("error");
    let last = expected.steps.iter().filter(|it| it.starts_with('@')).max();
    let last = last.map(|it| it[..4].to_owned()).filter(|_| failed);
    let settled = |seen: &Observation| {
        let mut seen = seen.clone();
        let root = |it: &str| it.starts_with('@') && last.as_deref().is_none_or(|last| it < last);
        seen.steps.retain(|it| !(failed || spec.forgets()) || root(it));
        seen
    };
    settled(expected).agrees(&settled(got), how)
}

#[test]
fn a_dropped_run_does_not_matter() {
    let polls = vec(1..24usize, 1..6);
    let strategy = (specs(Taste::KEPT), polls, delays(), option::weighted(0.2, Just(2)));
    check(64, &strategy, |(spec, polls, delays, workers)| {
        let expected = observe(&spec, &stored(Durability::Sync));
        let breaks = [Break::Drop(polls)];
        let setting = Setting { delays, workers, ..stored(Durability::Sync) };
        let (got, _) = observe_broken(&spec, &setting, &breaks);
        agree_after_stops(&spec, &expected, &got, &breaks)
    });
}

#[test]
fn a_failure_that_is_mended_does_not_matter() {
    let strategy = (specs(Taste::KEPT), 0..8usize, durabilities(), delays());
    check(64, &strategy, |(spec, node, durability, delays)| {
        let expected = observe(&spec, &stored(Durability::Sync));
        let setting = Setting { delays, ..stored(durability) };
        let (got, repeated) = observe_broken(&spec, &setting, &[Break::Fail(node)]);
        agree_after_stops(&spec, &expected, &got, &node)?;
        prop_assert!(spec.forgets() || repeated.is_empty(), "ran again: {repeated:#?}");
        Ok(())
    });
}

#[test]
fn every_checkpoint_holds_the_state_that_was_shown() {
    check(48, &specs(Taste::KEPT), |spec| {
        let session = Session::new(&spec, &stored(Durability::Sync));
        on(None, async {
            let thread = session.thread();
            let options = session.options().modes([Mode::Values, Mode::Checkpoints]);
            let mut run = thread.clone().with(options).stream(session.input());
            let mut last: Option<(i64, Value)> = None;
            while let Some(event) = run.next().await {
                match event.kind {
                    EventKind::Values(values) => last = Some((event.step, values.to_json())),
                    EventKind::Checkpoint { id, values, .. } => {
                        let loaded = thread.at(id).state().await;
                        let loaded = loaded.ok().flatten().map(|it| it.values.to_full_value());
                        prop_assert_eq!(loaded.as_ref(), Some(&values), "step {}", event.step);
                        if let Some((step, shown)) = &last
                            && *step == event.step
                        {
                            prop_assert_eq!(shown, &values, "shown after step {}", step);
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        })
    });
}

#[test]
fn a_thread_replayed_from_any_checkpoint_ends_the_same() {
    let strategy = (specs(Taste::KEPT), vec(any::<prop::sample::Index>(), 3), delays());
    check(64, &strategy, |(mut spec, picks, delays)| {
        if spec.keeps_state() {
            // Once a question was answered, such a graph goes on from the newest it has kept.
            spec.hush();
        }
        let setting = Setting { delays, ..stored(Durability::Async) };
        let session = Session::new(&spec, &setting);
        on(None, async {
            let (expected, _) = session.drive(&[]).await;
            if expected.outcome != "done" {
                // The words of an error tell the step, and a replayed one has another number.
                return Ok(());
            }
            let first = checkpoints(&session.thread()).await;
            for pick in picks {
                let id = *pick.get(&first);
                let from = session.thread().at(id);
                let (got, _) = session.drive_from(from, Next::Proceed, &[]).await;
                prop_assert_eq!(&got.outcome, &expected.outcome, "from {}", id);
                prop_assert_eq!(&got.state, &expected.state, "from {}", id);
            }
            Ok(())
        })
    });
}
