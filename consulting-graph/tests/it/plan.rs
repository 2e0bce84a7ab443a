//! What a run will take.

use consulting_graph::{
    config::{Config, DEFAULT},
    models::Choice,
    plan::{Assumptions, Plan, Planned},
};
use llm::Catalog;

fn config() -> Config {
    Config::parse(DEFAULT).unwrap()
}

fn plan(assumed: Assumptions) -> Plan {
    Plan::new(&config(), &Choice::of("anthropic"), Catalog::builtin(), assumed)
}

#[track_caller]
fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value} is not near {expected}");
}

/// What is said in debates about 15 moves, with the sizes assumed: a persona of 260 tokens, a move of 900, a turn of
/// 500 and 80 for the rest of a prompt. The real prompts are a little longer than that.
#[test]
fn the_usual_run() {
    let plan = plan(Assumptions::default());
    assert_eq!(plan.all.calls, 924);
    assert_eq!(plan.steps, 3 + 15 * 21);
    let debates: Vec<_> = plan.roles.iter().skip(3).collect();
    let roles: Vec<(&str, u64)> = debates.iter().map(|it| (it.role.as_str(), it.calls)).collect();
    assert_eq!(roles, [("critic", 420), ("D1", 150), ("D2", 150), ("D3", 150), ("scoring", 45)]);
    assert_eq!(roles.iter().map(|it| it.1).sum::<u64>(), 15 * 61);
    let sum = |of: fn(&Planned) -> f64| debates.iter().map(|it| of(it)).sum();
    near(sum(|it| it.input_tokens as f64), 5.87e6, 0.05);
    near(sum(|it| it.output_tokens as f64), 0.44e6, 0.02);
    near(sum(|it| it.dollars_uncached.unwrap()), 8.08, 0.05);
}

#[test]
fn what_a_cache_saves() {
    let debates =
        |plan: Plan, of: fn(&Planned) -> f64| -> f64 { plan.roles.iter().skip(3).map(of).sum() };
    // Each turn goes on with what its speaker was told before; scores are asked for in another form.
    let plan_of = |shortest_cached| plan(Assumptions { shortest_cached, ..Assumptions::default() });
    near(debates(plan_of(4096), |it| it.cached_tokens as f64), 3.73e6, 0.05);
    near(debates(plan_of(1024), |it| it.cached_tokens as f64), 4.33e6, 0.05);
    let scoring = plan_of(4096).roles.pop().unwrap();
    assert_eq!((scoring.role.as_str(), scoring.cached_tokens), ("scoring", 0));
    let all = plan_of(4096).all;
    assert!(all.dollars < all.dollars_uncached.map(|it| it * 0.65), "{all:?}");
}

#[test]
fn scores_before_the_debates_are_calls_on_top() {
    let plan = plan(Assumptions { baseline: true, ..Assumptions::default() });
    assert_eq!(plan.all.calls, 924 + 45);
    assert_eq!(plan.steps, 3 + 15 * 22);
}

#[test]
fn debates_at_once_take_less_time_up_to_what_is_answered_at_once() {
    let minutes =
        |concurrency| plan(Assumptions { concurrency, ..Assumptions::default() }).seconds / 60.0;
    near(minutes(1), 31.8, 0.01);
    near(minutes(5), 6.6, 0.01);
    // Four debates at a time, and three at the end.
    near(minutes(4), (3.0 + 4.0 * 21.0) / 10.0, 0.01);
    // Fifteen want 45 answers at once and get 16.
    near(minutes(15), (3.0 + 1.0 + 20.0 * 3.0) / 10.0, 0.01);
}

#[test]
fn prices_are_known_or_said_not_to_be() {
    let of = |config: &Config, provider: &str| {
        Plan::new(config, &Choice::of(provider), Catalog::builtin(), Assumptions::default())
    };
    let scripted = of(&config(), "scripted");
    assert_eq!(scripted.all.dollars, Some(0.0));
    assert_eq!(scripted.all.calls, 924);
    let critic = "[models.critic]\nmodel = \"openai-compatible/house-model\"\n\n[models.scoring]\n";
    let config = Config::parse(&DEFAULT.replace("[models.scoring]\n", critic)).unwrap();
    let mixed = of(&config, "anthropic");
    assert_eq!(mixed.all.dollars, None);
    assert!(mixed.roles.iter().all(|it| it.dollars.is_none() == (it.role == "critic")));
    assert_eq!(mixed.text().matches("price not known").count(), 3);
}

#[test]
fn the_plan_for_people() {
    insta::assert_snapshot!("plan_text", plan(Assumptions::default()).text());
}
