//! Schemas of answers with limits on the lengths of lists and texts. The schemas in the prompts have no such limits.
//! Providers that enforce the schema also enforce the limits; an answer that exceeds a limit is still accepted.

use llm::Schema;
use schemars::JsonSchema;

/// Returns the schema of `T` with limits, each given as the JSON pointer of a part of the schema, a keyword and a
/// number.
pub(crate) fn schema_with_limits<T: JsonSchema>(limits: &[(&str, &str, usize)]) -> Schema {
    let mut schema = Schema::of::<T>();
    for (path, keyword, max) in limits {
        if let Some(part) = schema.schema.pointer_mut(path) {
            part[*keyword] = (*max).into();
        }
    }
    schema
}
