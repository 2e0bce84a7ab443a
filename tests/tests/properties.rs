//! Properties that hold for all graphs. In particular, the result of a run depends only on the graph and its input.
//!
//! Each property generates random graphs ([`spec`]) and runs each of them in several ways ([`observe`]). If
//! `GRAPH_SEED` is not set, the generated graphs are always the same. If `GRAPH_NIGHTLY=1` is set, twenty times as
//! many graphs are generated, from a new seed each time. A failure prints the seed.

#[path = "properties/build.rs"]
mod build;
#[path = "properties/eager.rs"]
mod eager;
#[path = "properties/eager_graph.rs"]
mod eager_graph;
#[path = "properties/eager_log.rs"]
mod eager_log;
#[path = "properties/eager_spec.rs"]
mod eager_spec;
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
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use eager::{Seen, Setup};
use eager_log::Log;
use eager_spec::{EagerSpec, Features};
use graph_core::{Durability, EventKind, MemorySaver, StreamMode};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};
use serde_json::Value;

use observe::{
    Disruption, NextInput, Observation, Session, Setting, checkpoints, observe, observe_disrupted,
    on,
};
use spec::{Profile, Spec, specs};

type Checked = Result<(), TestCaseError>;

/// Checks a property on `cases` random cases.
#[track_caller]
fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> Checked) {
    let nightly = test_support::is_nightly();
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
        panic!("{failure}\nreproduce with GRAPH_SEED={seed}");
    }
}

fn delays() -> impl Strategy<Value = Vec<u8>> {
    vec(0..6u8, 1..9)
}

fn durabilities() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)]
}

/// Checks that a graph has the same result with all settings.
fn check_same(spec: &Spec, settings: &[Setting]) -> Checked {
    let mut expected: Option<Observation> = None;
    for setting in settings {
        let got = observe(spec, setting);
        match &expected {
            None => expected = Some(got),
            Some(expected) => expected.check_equal(&got, setting)?,
        }
    }
    Ok(())
}

fn stored(durability: Durability) -> Setting {
    Setting { saver: Some(durability), answers: true, ..Setting::default() }
}

#[test]
fn result_does_not_depend_on_completion_order() {
    let strategy = (specs(Profile::UNRESTRICTED), delays(), any::<bool>());
    check(64, &strategy, |(spec, delays, watched)| {
        let backwards = delays.iter().rev().copied().collect();
        let with = |delays| Setting { delays, watched, ..Setting::default() };
        check_same(&spec, &[with(Vec::new()), with(delays.clone()), with(backwards)])?;
        let with = |delays| Setting { delays, watched, ..stored(Durability::Async) };
        check_same(&spec, &[with(Vec::new()), with(delays)])
    });
}

#[test]
fn result_does_not_depend_on_worker_threads() {
    let strategy =
        (specs(Profile::UNRESTRICTED), delays(), option::of(durabilities()), any::<bool>());
    check(48, &strategy, |(spec, delays, saver, watched)| {
        let answers = saver.is_some();
        let with = |workers| {
            let delays = delays.clone();
            Setting { workers, saver, watched, delays, answers, ..Setting::default() }
        };
        check_same(&spec, &[None, Some(1), Some(2), Some(4)].map(with))
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

fn check_settings_unobservable(cases: u32, profile: Profile) {
    check(cases, &(specs(profile), vec(settings(), 4)), |(spec, mut settings)| {
        settings.insert(0, Setting::default());
        settings.push(Setting { watched: true, ..Setting::default() });
        settings.push(Setting { saver: Some(Durability::Sync), ..Setting::default() });
        check_same(&spec, &settings)
    });
}

#[test]
fn result_does_not_depend_on_checkpoints_watchers_or_concurrency_limits() {
    check_settings_unobservable(64, Profile::UNRESTRICTED);
}

#[test]
fn result_of_a_single_task_loop_does_not_depend_on_checkpoints_or_watchers() {
    check_settings_unobservable(96, Profile::SINGLE_TASK_LOOP);
}

#[test]
fn stopped_and_resumed_run_has_the_same_result() {
    let disruptions = prop_oneof![
        Just(Disruption::Before),
        Just(Disruption::After),
        Just(Disruption::BeforeAndAfter),
        (0..8i64).prop_map(Disruption::Drain),
        (1..8u32).prop_map(Disruption::Limit),
        Just(Disruption::OneAnswer),
    ];
    let strategy =
        (specs(Profile::RESUMABLE_STATEFUL), vec(disruptions, 1..4), durabilities(), delays());
    check(64, &strategy, |(spec, mut disruptions, durability, delays)| {
        if spec.has_stateless_subgraph() || (durability == Durability::Exit && spec.has_subgraphs())
        {
            // With this durability or subgraph, a part of the graph starts over in each run, so a low limit on the
            // steps of a run could prevent the graph from ever completing.
            disruptions.retain(|it| !matches!(it, Disruption::Limit(_)));
        }
        let expected = observe(&spec, &stored(Durability::Sync));
        let setting = Setting { delays, ..stored(durability) };
        let (got, repeated) = observe_disrupted(&spec, &setting, &disruptions);
        check_equal_after_stops(&spec, &expected, &got, &disruptions)?;
        prop_assert!(
            spec.has_stateless_subgraph() || repeated.is_empty(),
            "repeated tasks: {repeated:#?}"
        );
        Ok(())
    });
}

/// Compares the parts of two observations that stops do not affect.
///
/// A stateless subgraph repeats its tasks, so only the tasks of the root graph are compared. After an error, the
/// number of finished tasks in the last step is not deterministic.
fn check_equal_after_stops(
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
        seen.steps.retain(|it| !(failed || spec.has_stateless_subgraph()) || root(it));
        seen
    };
    settled(expected).check_equal(&settled(got), how)
}

#[test]
fn dropped_and_resumed_run_has_the_same_result() {
    let polls = vec(1..24usize, 1..6);
    let strategy =
        (specs(Profile::RESUMABLE_STATEFUL), polls, delays(), option::weighted(0.2, Just(2)));
    check(64, &strategy, |(spec, polls, delays, workers)| {
        let expected = observe(&spec, &stored(Durability::Sync));
        let disruptions = [Disruption::Drop(polls)];
        let setting = Setting { delays, workers, ..stored(Durability::Sync) };
        let (got, _) = observe_disrupted(&spec, &setting, &disruptions);
        check_equal_after_stops(&spec, &expected, &got, &disruptions)
    });
}

#[test]
fn run_resumed_after_a_failure_has_the_same_result() {
    let strategy = (specs(Profile::RESUMABLE_STATEFUL), 0..8usize, durabilities(), delays());
    check(64, &strategy, |(spec, node, durability, delays)| {
        let expected = observe(&spec, &stored(Durability::Sync));
        let setting = Setting { delays, ..stored(durability) };
        let (got, repeated) = observe_disrupted(&spec, &setting, &[Disruption::Fail(node)]);
        check_equal_after_stops(&spec, &expected, &got, &node)?;
        prop_assert!(
            spec.has_stateless_subgraph() || repeated.is_empty(),
            "repeated tasks: {repeated:#?}"
        );
        Ok(())
    });
}

#[test]
fn checkpoints_contain_the_streamed_state() {
    check(48, &specs(Profile::RESUMABLE_STATEFUL), |spec| {
        let session = Session::new(&spec, &stored(Durability::Sync));
        on(None, async {
            let thread = session.thread();
            let options =
                session.options().stream_modes([StreamMode::Values, StreamMode::Checkpoints]);
            let mut run = thread.clone().with_options(options).stream(session.input());
            let mut last: Option<(i64, Value)> = None;
            while let Some(event) = run.next().await {
                match event.kind {
                    EventKind::Values(values) => last = Some((event.step, values.to_json())),
                    EventKind::Checkpoint { id, values, .. } => {
                        let loaded = thread.at(id).state().await;
                        let loaded = loaded.ok().flatten().map(|it| it.values.to_full_value());
                        prop_assert_eq!(loaded.as_ref(), Some(&values), "step {}", event.step);
                        if let Some((step, events)) = &last
                            && *step == event.step
                        {
                            prop_assert_eq!(events, &values, "streamed after step {}", step);
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
fn replay_from_any_checkpoint_has_the_same_result() {
    let strategy =
        (specs(Profile::RESUMABLE_STATEFUL), vec(any::<prop::sample::Index>(), 3), delays());
    check(64, &strategy, |(mut spec, picks, delays)| {
        if spec.has_stateful_subgraph() {
            // After an interrupt is answered, a graph with a stateful subgraph resumes from its newest checkpoint, so a
            // replay with interrupts can have a different result.
            spec.remove_interrupts();
        }
        let setting = Setting { delays, ..stored(Durability::Async) };
        let session = Session::new(&spec, &setting);
        on(None, async {
            let (expected, _) = session.drive(&[]).await;
            if expected.outcome != "done" {
                // Failed runs are not replayed, because error messages contain the step number, which is different in a
                // replay.
                return Ok(());
            }
            let first = checkpoints(&session.thread()).await;
            for pick in picks {
                let id = *pick.get(&first);
                let from = session.thread().at(id);
                let (got, _) = session.drive_from(from, NextInput::Proceed, &[]).await;
                prop_assert_eq!(&got.outcome, &expected.outcome, "from {}", id);
                prop_assert_eq!(&got.state, &expected.state, "from {}", id);
            }
            Ok(())
        })
    });
}

/// Runs an eager or ordinary graph on a new thread until it is complete.
fn drive(spec: &EagerSpec, eager: bool, latencies: u64, durability: Durability) -> (Seen, Log) {
    let (setup, log) = (Setup { spec, eager, latencies, durability }, Log::default());
    let seen = on(None, setup.drive(&log, Arc::new(MemorySaver::new())));
    (seen, log)
}

#[test]
fn eager_graph_gives_the_results_events_and_history_of_an_ordinary_one() {
    let spread = Mutex::new(0);
    let strategy = (any::<u64>(), any::<bool>(), durabilities(), vec(any::<u64>(), 3));
    check(500, &strategy, |(seed, faults, durability, latencies)| {
        let spec = EagerSpec::new(seed, Features { faults, unstored: true });
        let (expected, _) = drive(&spec, false, 0, durability);
        for latencies in latencies {
            let (got, log) = drive(&spec, true, latencies, durability);
            prop_assert_eq!(&got, &expected, "latencies {}: {:#?}", latencies, &spec);
            let mut spread = spread.lock().expect("no test panics while it holds the lock");
            *spread = log.spread().max(*spread);
        }
        Ok(())
    });
    let spread = spread.into_inner().expect("no test panics while it holds the lock");
    assert!(spread >= 3, "tasks run at most {spread} steps ahead");
}

#[test]
fn eager_graph_resumes_after_a_crash_at_any_write() {
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::Async)];
    check(40, &(any::<u64>(), durability, any::<u64>()), |(seed, durability, latencies)| {
        let spec = EagerSpec::new(seed, Features { faults: false, unstored: false });
        let (expected, _) = drive(&spec, false, 0, durability);
        let setup = Setup { spec: &spec, eager: true, latencies, durability };
        for write in 0.. {
            let Some(got) = on(None, setup.drive_with_crash(write)) else { break };
            prop_assert_eq!(got.result(), expected.result(), "write {}: {:#?}", write, &spec);
        }
        Ok(())
    });
}
