//! What models answer, read with some patience.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// No answer is searched further than this.
const LONGEST: usize = 400_000;

/// The first JSON object or list in an answer that is a `T` and fits, whatever stands around it.
///
/// What is looked for has to fit because nearly anything may be an empty list: a box to tick in markdown is one.
pub(crate) fn json<T: DeserializeOwned>(answer: &str, fits: impl Fn(&T) -> bool) -> Option<T> {
    let end = answer.char_indices().nth(LONGEST).map_or(answer.len(), |it| it.0);
    let answer = &answer[..end];
    answer.match_indices(['{', '[']).find_map(|(at, _)| {
        let value = serde_json::Deserializer::from_str(&answer[at..]).into_iter().next()?;
        value.ok().filter(&fits)
    })
}

/// A list, or the one thing that should have been in a list.
pub(crate) fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form<T> {
        Many(Vec<T>),
        One(T),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::Many(many) => many,
        Form::One(one) => vec![one],
    })
}
