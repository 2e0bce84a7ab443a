//! Rewinds threads to a checkpoint before a failure.

use graph_core::{RunError, State, Thread, ThreadState};

/// Returns the newest matching checkpoint among the thread's head and its ancestors. Ignores checkpoints on abandoned
/// branches.
pub(crate) async fn newest_ancestor<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    is_match: impl Fn(&ThreadState<S>) -> bool,
) -> Result<Option<ThreadState<S>>, RunError> {
    let mut next = thread.state().await?.map(|it| it.id);
    // The history is sorted newest first, so parents follow their children.
    for state in thread.history(None).await? {
        if next.as_ref() != Some(&state.id) {
            continue;
        }
        if is_match(&state) {
            return Ok(Some(state));
        }
        next = state.parent;
    }
    Ok(None)
}
