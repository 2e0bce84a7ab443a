//! Rules for reviewing calls to a tool.

use std::{fmt, sync::Arc};

use super::kind::DecisionKind;
use crate::message::ToolCall;

/// Rule for reviewing calls to a tool.
///
/// ```
/// use graph_agents::middleware::{DecisionKind, HumanInTheLoop, ReviewRule};
/// use serde_json::Value;
///
/// // Calls with an amount of more than 100 are approved or rejected by a person; all others run immediately.
/// let rule = ReviewRule::allow([DecisionKind::Approve, DecisionKind::Reject])
///     .description("Approve the payment?")
///     .when(|call| call.args.get("amount").and_then(Value::as_f64).is_none_or(|it| it > 100.0));
/// let review = HumanInTheLoop::new([("pay", rule)]);
/// # let _ = review;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ReviewRule {
    pub(super) allowed: Vec<DecisionKind>,
    pub(super) description: Option<String>,
    when: Option<Arc<dyn Fn(&ToolCall) -> bool + Send + Sync>>,
}

impl ReviewRule {
    /// Creates a rule that allows all decisions.
    pub fn all() -> Self {
        Self::allow(DecisionKind::ALL)
    }

    /// Creates a rule that allows these decisions.
    pub fn allow(decisions: impl IntoIterator<Item = DecisionKind>) -> Self {
        Self { allowed: decisions.into_iter().collect(), description: None, when: None }
    }

    /// Sets the description that the reviewer sees.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Reviews only the calls that the function selects.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&ToolCall) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    pub(super) fn applies(&self, call: &ToolCall) -> bool {
        self.when.as_ref().is_none_or(|when| when(call))
    }
}

impl fmt::Debug for ReviewRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewRule").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}
