//! Finds and parses JSON in the answers of models.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// Maximum number of characters of an answer that are searched for JSON.
const MAX_CHARS: usize = 400_000;

/// Searches an answer for JSON objects and arrays. Returns the first one that deserializes to `T` and that `fits`
/// accepts. Ignores all other text.
///
/// `fits` has to reject empty values, because many texts contain an empty list, for example as a Markdown checkbox.
pub(crate) fn find<T: DeserializeOwned>(answer: &str, fits: impl Fn(&T) -> bool) -> Option<T> {
    let answer = searched_part(answer);
    answer.match_indices(['{', '[']).find_map(|(at, _)| {
        let value = serde_json::Deserializer::from_str(&answer[at..]).into_iter().next()?;
        value.ok().filter(&fits)
    })
}

/// Searches an answer for JSON objects that deserialize to `T`, such as the complete elements of a list that is cut
/// off. Ignores objects that are nested in one of these objects.
pub(crate) fn find_all<T: DeserializeOwned>(answer: &str) -> Vec<T> {
    let answer = searched_part(answer);
    let (mut found, mut end) = (Vec::new(), 0);
    for (at, _) in answer.match_indices('{') {
        if at < end {
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(&answer[at..]).into_iter();
        if let Some(Ok(value)) = values.next() {
            found.push(value);
            end = at + values.byte_offset();
        }
    }
    found
}

fn searched_part(answer: &str) -> &str {
    let end = answer.char_indices().nth(MAX_CHARS).map_or(answer.len(), |it| it.0);
    &answer[..end]
}

/// Deserializes a list. A single value becomes a list with one element.
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
