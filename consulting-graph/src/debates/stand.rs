//! Where a debate stands when a run comes to it.

use graph_core::{
    NodeError,
    checkpoint::{Cursor, Lookup},
};
use serde_json::Value;

use super::{Debates, Settled};
use crate::{config::Config, moves::MoveId};

/// Where a debate stands.
pub(super) enum Stand {
    /// At its beginning.
    New,
    /// Somewhere on the way.
    Begun,
    /// At its end.
    Over(Box<Settled>),
}

impl Debates {
    /// Where the debate about a move stands. One that is over and came to nothing begins anew: its turns are in the
    /// run's recording, so nobody is asked for them again, and those who were not heard are.
    pub(super) async fn stand(&self, move_id: MoveId, config: &Config) -> Result<Stand, NodeError> {
        let thread = move_id.to_string();
        let head = self.saver.get(&Lookup::head(&thread, "")).await.map_err(NodeError::terminal)?;
        let Some(head) = head else { return Ok(Stand::New) };
        if !is_over(&head.cursor) {
            return Ok(Stand::Begun);
        }
        let settled = Settled::read(Value::Object(head.values), config, move_id);
        if settled.problem.is_none() {
            return Ok(Stand::Over(Box::new(settled)));
        }
        self.saver.delete_thread(&thread).await.map_err(NodeError::terminal)?;
        Ok(Stand::New)
    }
}

/// Whether nothing is left to run.
fn is_over(cursor: &Cursor) -> bool {
    let Cursor { armed, held, released, sends, input, .. } = cursor;
    armed.is_empty()
        && held.is_empty()
        && released.is_empty()
        && sends.is_empty()
        && input.is_none()
}
