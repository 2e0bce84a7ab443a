//! Ablations: the generated moves, the harness with scripted critics, resuming, and budgets.

mod cases;
mod harness;
mod resume;
mod statistics;

use std::path::Path;

use chrono::NaiveDate;

use crate::{
    ablate::{
        Ablation, AblationDir, AblationError, AblationSettings, Arm, Critics, ExecuteOptions,
        new_settings,
    },
    config::DEFAULT,
    data::{DataOrigin, DataSource},
    models::{Limit, ModelChoice},
};

/// Returns the cut-off date of the company data.
fn as_of() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 15).unwrap()
}

/// Returns the settings of an ablation with scripted critics.
fn scripted(arms: &[Arm], pairs: usize, repeats: u32) -> AblationSettings {
    AblationSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ticker: "NVDA".to_owned(),
        data: DataSource { origin: DataOrigin::Included, as_of: as_of() },
        choice: ModelChoice { seed: 1, ..ModelChoice::for_provider("scripted") },
        critic_model: None,
        critics: Some(Critics::Skilled),
        arms: arms.to_vec(),
        pairs,
        repeats,
        nonce: "0".to_owned(),
        limit: Limit::default(),
        config_toml: DEFAULT.to_owned(),
    }
}

async fn create(dir: &Path, settings: AblationSettings) -> AblationDir {
    AblationDir::create(dir, new_settings(settings, None).unwrap()).await.unwrap()
}

async fn execute(
    ablation: &AblationDir,
    options: ExecuteOptions,
) -> Result<Ablation, AblationError> {
    ablation.execute(options, &mut |_| {}).await
}

/// Executes an ablation with scripted critics in a temporary directory.
async fn run(settings: AblationSettings) -> Ablation {
    let dir = tempfile::tempdir().unwrap();
    let ablation = create(dir.path(), settings).await;
    execute(&ablation, ExecuteOptions { concurrency: 4, ..ExecuteOptions::default() })
        .await
        .unwrap()
}
