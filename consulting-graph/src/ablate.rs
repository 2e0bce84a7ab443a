//! The ablation `consulting ablate`: measures whether debating a move improves the judgement about it.
//!
//! A generator makes pairs of moves from the figures of a company: a sound move, and the same move with exactly one
//! planted [flaw](FlawKind). Each [`Arm`] is one way to judge a move, from a single call to a debate of ten rounds, and
//! is a small graph of its own. In every arm, the same decision maker gives the [`Verdict`], in the same form.
//!
//! # Metrics, fixed before any measurement
//!
//! | metric | definition |
//! |---|---|
//! | sensitivity | fraction of flawed moves that are judged flawed |
//! | specificity | fraction of sound moves that are judged sound |
//! | accuracy | mean of sensitivity and specificity; the **primary metric** |
//! | stability of the top three | mean Jaccard index of the three best-scored moves in two repeats |
//! | agreement of repeats | Kendall's tau-b between the scores in two repeats |
//! | agreement with the truth | Kendall's tau-b between the mean scores and whether the moves are sound |
//! | cost | counted tokens and money |
//!
//! # Decision rule, fixed before any measurement
//!
//! The comparisons are listed in [`CONTRASTS`]. A comparison has an effect if the paired bootstrap interval of the
//! difference in accuracy excludes zero. The unit of resampling is the pair of moves. The intervals are simultaneous:
//! with `m` comparisons, each has the level 1 - 0.05 / `m` (Bonferroni). With fewer than [`MIN_PAIRS`] pairs, nothing is
//! decided. A verdict that cannot be read, even on a second request, counts as "no flaw" with a neutral score.

mod analysis;
mod arm;
mod cases;
mod dir;
mod error;
mod execute;
mod facts;
mod flaw;
mod graph;
mod prompts;
mod report;
mod script;
mod settings;
mod statistics;
mod trial;
mod verdict;

pub use analysis::{Ablation, ArmResult, CONTRASTS, ContrastResult, Decision, MIN_PAIRS};
pub use arm::{Arm, ArmError};
pub use cases::{Case, generate};
pub use dir::AblationDir;
pub use error::AblationError;
pub use execute::{ExecuteOptions, Progress};
pub use flaw::FlawKind;
pub use script::{Critics, Skill};
pub use settings::{AblationSettings, new_settings};
pub use statistics::{Interval, jaccard, kendall_tau, mean_interval};
pub use trial::TrialResult;
pub use verdict::Verdict;
