//! Snapshots of the test graphs, in all formats.

use graph_core::{Input, RunOptions};
use graph_trace::{
    Detail, Redactions, SnapshotOptions, assert_trace_snapshot, record, record_thread,
};

use crate::graphs::{TestEnv, case, tea};

#[tokio::test]
async fn fan_out_is_rendered_at_two_levels_of_detail() {
    assert_trace_snapshot!(case("fan out").plain, tea(), TestEnv::new(1));
    let options = RunOptions::new().max_concurrency(2);
    assert_trace_snapshot!(case("fan out").plain, tea(), TestEnv::new(2), options; SnapshotOptions::new(Detail::Full).named("fan_out_in_full"));
}

#[tokio::test]
async fn loop_is_rendered_as_text_and_as_json() {
    let recorded = record(&case("loop").plain, tea(), TestEnv::new(1), RunOptions::new()).await;
    assert_trace_snapshot!(recorded; SnapshotOptions::new(Detail::Routes));
    assert_trace_snapshot!(recorded.trace; SnapshotOptions::new(Detail::Routes).json());
}

#[tokio::test]
async fn answered_interrupts_are_rendered_and_redacted() {
    let thread = case("question").stored.thread("t", TestEnv::new(1));
    let mut recorded = record_thread(&thread, tea()).await;
    assert_trace_snapshot!(recorded);
    recorded = recorded.then(&thread, Input::resume(true).unwrap()).await;
    recorded = recorded.then(&thread, Input::resume("it is good").unwrap()).await;
    let redactions =
        Redactions::new().path("drafts[*]", "[draft]").text("(all about *)", "[price]");
    assert_trace_snapshot!(recorded; SnapshotOptions::default().redactions(redactions));
}
