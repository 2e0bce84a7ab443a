//! Changing a setting of a configuration from the command line: `critic.persona=…`.

use toml::{Table, Value};

use super::RunProblem;

/// The configuration with settings changed. A path names tables by their keys and lists' entries by their ids;
/// `persona` stands for what someone is told about themselves.
pub(super) fn set(config: &str, settings: &[String]) -> Result<String, RunProblem> {
    let mut table: Table = toml::from_str(config).map_err(|error| RunProblem::Setting {
        setting: settings.join(" "),
        problem: error.to_string(),
    })?;
    for setting in settings {
        change(&mut table, setting)
            .map_err(|problem| RunProblem::Setting { setting: setting.clone(), problem })?;
    }
    toml::to_string(&table).map_err(|error| RunProblem::Setting {
        setting: settings.join(" "),
        problem: error.to_string(),
    })
}

fn change(table: &mut Table, setting: &str) -> Result<(), String> {
    let (path, text) = setting.split_once('=').ok_or("write it as path=value")?;
    let keys: Vec<&str> = path.trim().split('.').collect();
    let (last, way) = keys.split_last().ok_or("write it as path=value")?;
    let mut here = table;
    for (depth, key) in way.iter().enumerate() {
        let is_first = depth == 0;
        here = step(here, key, is_first).ok_or_else(|| {
            format!("there is no `{key}`; `consulting config` shows what there is")
        })?;
    }
    let last = if *last == "persona" { "system_prompt" } else { last };
    let now = here.get(last);
    if now.is_none() && !["model", "temperature", "max_tokens", "chunk_lines"].contains(&last) {
        let known: Vec<&str> = here.keys().map(String::as_str).collect();
        return Err(format!("there is no `{last}`; there are: {}", known.join(", ")));
    }
    let value = typed(now, text)?;
    here.insert(last.to_owned(), value);
    Ok(())
}

/// A table within a table, by its key; at the top also anybody by id.
fn step<'a>(table: &'a mut Table, key: &str, is_first: bool) -> Option<&'a mut Table> {
    if table.contains_key(key) {
        return table.get_mut(key)?.as_table_mut();
    }
    if !is_first {
        return None;
    }
    let lists = table.iter_mut().filter_map(|(_, value)| value.as_array_mut());
    let entries = lists.flatten().filter_map(Value::as_table_mut);
    entries.into_iter().find(|it| it.get("id").and_then(Value::as_str) == Some(key))
}

/// The text as a value of the kind that stands there now; numbers and truth where nothing does.
fn typed(now: Option<&Value>, text: &str) -> Result<Value, String> {
    let wrong = |kind: &str| format!("{text:?} is no {kind}");
    Ok(match now {
        Some(Value::String(_)) => Value::String(text.to_owned()),
        Some(Value::Integer(_)) => Value::Integer(text.parse().map_err(|_| wrong("whole number"))?),
        Some(Value::Float(_)) => Value::Float(text.parse().map_err(|_| wrong("number"))?),
        Some(Value::Boolean(_)) => {
            Value::Boolean(text.parse().map_err(|_| wrong("true or false"))?)
        }
        Some(_) => return Err("it holds several settings; name one of them".to_owned()),
        None => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => Value::Integer(whole),
            (_, Ok(number)) => Value::Float(number),
            _ => Value::String(text.to_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::set;
    use crate::config::{Config, DEFAULT};

    #[test]
    fn settings_are_changed_by_path() {
        let settings = [
            "critic.persona=Be mild.",
            "D2.persona=Be brief.",
            "rounds=3",
            "models.critic.temperature=0.1",
        ]
        .map(str::to_owned);
        // `models.critic` is not in the file.
        assert!(set(DEFAULT, &settings).is_err());
        let config = set(DEFAULT, &settings[..3]).unwrap();
        let config = Config::parse(&config).unwrap();
        assert_eq!(config.critic.system_prompt, "Be mild.");
        assert_eq!(config.decision_makers[1].system_prompt, "Be brief.");
        assert_eq!(config.rounds, 3);
        let warm = set(DEFAULT, &["models.scoring.temperature=0.5".to_owned()]).unwrap();
        assert_eq!(Config::parse(&warm).unwrap().models["scoring"].temperature, Some(0.5));
    }

    #[test]
    fn what_is_not_there_cannot_be_changed() {
        for (setting, said) in [
            ("rounds", "path=value"),
            ("rounds=many", "whole number"),
            ("judge.persona=x", "no `judge`"),
            ("critic.colour=red", "no `colour`"),
            ("critic=x", "several settings"),
        ] {
            let error = set(DEFAULT, &[setting.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(said), "{setting}: {error}");
        }
    }
}
