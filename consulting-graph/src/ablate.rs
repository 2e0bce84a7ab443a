//! The ablation `consulting ablate`: measures whether debating a move improves the judgement about it.
//!
//! A generator makes pairs of moves from the figures of a company: a sound move, and the same move with exactly one
//! planted [flaw](FlawKind). Each [`Arm`] is one way to judge a move, from a single call to a debate of ten rounds, and
//! is implemented as a small graph. In every arm, the same decision maker gives the [`Verdict`], in the same form.
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
//! The comparisons are listed in [`CONTRASTS`]. With `m` comparisons, a comparison has an effect if the p-value of the
//! difference in accuracy is at most 0.05 / `m` (Bonferroni). The p-value is that of the paired
//! [sign-flip permutation test](sign_flip_p_value), whose unit is the pair of moves. Its null hypothesis is that
//! exchanging the verdicts of the two arms within a pair does not change their distribution. The probability of at
//! least one false effect is at most 5 %, for any number of pairs. Bootstrap intervals of the level 1 - 0.05 / `m`
//! describe the differences, but do not decide. With fewer than [`MIN_PAIRS`] pairs, nothing is decided. A verdict that
//! cannot be read, even on a second request, counts as "no flaw" with a neutral score.

mod analysis;
mod arm;
mod cases;
mod contrast;
mod dir;
mod error;
mod execute;
mod facts;
mod flaw;
mod graph;
mod prompts;
mod report;
mod schedule;
mod script;
mod settings;
mod statistics;
mod trial;
mod verdict;

pub use analysis::{Ablation, ArmResult, TotalCost};
pub use arm::{Arm, ArmError};
pub use cases::{Case, generate};
pub use contrast::{CONTRASTS, ContrastResult, Decision, MIN_PAIRS};
pub use dir::AblationDir;
pub use error::AblationError;
pub use execute::{ExecuteOptions, Progress};
pub use flaw::FlawKind;
pub use script::{Critics, Skill};
pub use settings::{AblationSettings, new_settings};
pub use statistics::{Interval, jaccard, kendall_tau, mean_interval, sign_flip_p_value};
pub use trial::TrialResult;
pub use verdict::Verdict;
