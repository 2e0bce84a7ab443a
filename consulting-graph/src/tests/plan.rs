//! Cost estimates.

use llm::Catalog;

use crate::{
    config::{Config, DEFAULT},
    models::ModelChoice,
    plan::{Assumptions, Estimate, Plan},
};

fn config() -> Config {
    Config::parse(DEFAULT).unwrap()
}

fn plan(assumed: Assumptions) -> Plan {
    Plan::new(&config(), &ModelChoice::for_provider("anthropic"), Catalog::builtin(), assumed)
}

#[track_caller]
fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value} is not near {expected}");
}

/// Compares the plan for the debates about 15 moves with numbers computed from assumed sizes: 260 tokens for a persona,
/// 900 for a move, 500 for a turn, and 80 for everything else in a prompt. The real prompts are slightly longer, so the
/// numbers only have to be close.
#[test]
fn the_default_run_has_the_expected_cost() {
    let plan = plan(Assumptions::default());
    assert_eq!(plan.all.calls, 924);
    assert_eq!(plan.steps, 3 + 15 * 21);
    let debates: Vec<_> = plan.roles.iter().skip(3).collect();
    let roles: Vec<(&str, u64)> = debates.iter().map(|it| (it.role.as_str(), it.calls)).collect();
    assert_eq!(roles, [("critic", 420), ("D1", 150), ("D2", 150), ("D3", 150), ("scoring", 45)]);
    assert_eq!(roles.iter().map(|it| it.1).sum::<u64>(), 15 * 61);
    let sum = |of: fn(&Estimate) -> f64| debates.iter().map(|it| of(it)).sum();
    near(sum(|it| it.input_tokens as f64), 5.87e6, 0.05);
    near(sum(|it| it.output_tokens as f64), 0.44e6, 0.02);
    near(sum(|it| it.dollars_uncached.unwrap()), 8.08, 0.05);
}

#[test]
fn prompt_caching_reduces_the_cost() {
    let debates =
        |plan: Plan, of: fn(&Estimate) -> f64| -> f64 { plan.roles.iter().skip(3).map(of).sum() };
    // Each prompt for a turn extends the previous prompt of the same agent, so most of the prompt is cached. Scoring
    // calls request a different answer format, so nothing is cached for them.
    let plan_of =
        |min_cached_tokens| plan(Assumptions { min_cached_tokens, ..Assumptions::default() });
    near(debates(plan_of(4096), |it| it.cached_tokens as f64), 3.73e6, 0.05);
    near(debates(plan_of(1024), |it| it.cached_tokens as f64), 4.33e6, 0.05);
    let scoring = plan_of(4096).roles.pop().unwrap();
    assert_eq!((scoring.role.as_str(), scoring.cached_tokens), ("scoring", 0));
    let all = plan_of(4096).all;
    assert!(all.dollars < all.dollars_uncached.map(|it| it * 0.65), "{all:?}");
}

#[test]
fn baseline_scoring_adds_calls() {
    let plan = plan(Assumptions { baseline: true, ..Assumptions::default() });
    assert_eq!(plan.all.calls, 924 + 45);
    assert_eq!(plan.steps, 3 + 15 * 22);
}

#[test]
fn concurrency_reduces_the_time_up_to_the_call_limit() {
    let minutes =
        |concurrency| plan(Assumptions { concurrency, ..Assumptions::default() }).seconds / 60.0;
    near(minutes(1), 31.8, 0.01);
    near(minutes(5), 6.6, 0.01);
    // The debates run in three groups of four, followed by one group of three.
    near(minutes(4), (3.0 + 4.0 * 21.0) / 10.0, 0.01);
    // 15 debates have 45 concurrent calls, of which 16 are answered at a time.
    near(minutes(15), (3.0 + 1.0 + 20.0 * 3.0) / 10.0, 0.01);
}

#[test]
fn unknown_prices_are_reported() {
    let of = |config: &Config, provider: &str| {
        Plan::new(
            config,
            &ModelChoice::for_provider(provider),
            Catalog::builtin(),
            Assumptions::default(),
        )
    };
    let scripted = of(&config(), "scripted");
    assert_eq!(scripted.all.dollars, Some(0.0));
    assert_eq!(scripted.all.calls, 924);
    let critic = "[models.critic]\nmodel = \"openai-compatible/house-model\"\n\n[models.scoring]\n";
    let config = Config::parse(&DEFAULT.replace("[models.scoring]\n", critic)).unwrap();
    let mixed = of(&config, "anthropic");
    assert_eq!(mixed.all.dollars, None);
    assert!(mixed.roles.iter().all(|it| it.dollars.is_none() == (it.role == "critic")));
    assert_eq!(mixed.text().matches("price unknown").count(), 3);
}

#[test]
fn the_plan_as_text() {
    insta::assert_snapshot!("plan_text", plan(Assumptions::default()).text());
}
