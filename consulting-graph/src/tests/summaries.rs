//! Runs in which a model summarises the rounds of a debate that do not fit the context window.

use super::run::{
    check_replay, edit_config, finish, recorded_calls, recorded_prompts, resume_options, run_config,
};
use crate::run::Run;

#[tokio::test(flavor = "multi_thread")]
async fn summaries_of_a_model_are_counted_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let config = edit_config(run_config(1, 10), |it| {
        it["summaries"] = "model".into();
        let window = toml::Table::from_iter([("context_tokens".to_owned(), 6000.into())]);
        it["models"].as_table_mut().unwrap().insert("decision_makers".to_owned(), window.into());
    });
    let run = Run::create(folder.path().join("run"), config).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    assert!(!report.is_incomplete(), "{:?}", report.outcome.failures);
    let prompts = recorded_prompts(run.dir());
    let is_request = |it: &&String| it.contains("You write neutral summaries of debates.");
    let requested = prompts.iter().filter(is_request).count() as u64;
    assert!(requested > 0, "no prompt exceeds the window");
    let spending = &report.outcome.spending;
    let summaries = spending.iter().filter(|it| it.name.ends_with(" summaries"));
    assert_eq!(summaries.map(|it| it.calls).sum::<u64>(), requested);
    let calls: u64 = spending.iter().map(|it| it.calls).sum();
    assert_eq!(calls, recorded_calls(run.dir()) as u64);
    check_replay(&run, &report).await;
}
