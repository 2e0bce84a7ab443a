//! Ranks the moves and assesses how reliable the ranking is.

mod baseline;
mod ranking;
mod robustness;
mod severity;

pub use baseline::{Drift, drift, kendall_tau};
pub use ranking::{Ranked, Ranking, Unscored, rank};
pub use robustness::{RankRobustness, Robustness, robustness};
pub use severity::{Severity, severity};
