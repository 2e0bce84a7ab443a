//! Compares the settings of two runs.

use serde_json::Value;

use crate::{
    difference::{SettingChange, setting_changes},
    run::Run,
};

/// Fields of the run configuration that are not compared. `run_id` and `nonce` are not settings. `config` is the text
/// of the configuration file, whose parsed form is compared instead.
const NOT_COMPARED: [&str; 3] = ["run_id", "nonce", "config"];

/// Returns the settings that differ between two runs, sorted by path.
pub(super) fn between(a: &Run, b: &Run) -> Vec<SettingChange> {
    setting_changes(&settings(a), &settings(b))
}

/// Returns the run configuration, with the parsed configuration file in place of the text of the file.
fn settings(run: &Run) -> Value {
    let object = |it: Value| it.as_object().cloned().unwrap_or_default();
    let mut run_config =
        object(serde_json::to_value(&run.manifest().run_config).unwrap_or_default());
    run_config.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()));
    run_config.extend(object(serde_json::to_value(run.config()).unwrap_or_default()));
    Value::Object(run_config)
}
