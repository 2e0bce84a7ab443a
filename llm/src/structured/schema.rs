//! Generates the JSON Schemas of Rust types.

use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};

use crate::Schema;

impl Schema {
    /// Generates the JSON Schema of a type.
    ///
    /// Omits the `format` keyword that schemars adds to numbers (`"format": "uint8"`), because some providers reject
    /// formats that they do not know. The ranges `minimum` and `maximum` state the same limits.
    ///
    /// ```
    /// #[derive(schemars::JsonSchema)]
    /// struct Score {
    ///     #[schemars(range(min = 1, max = 10))]
    ///     impact: u8,
    /// }
    ///
    /// let schema = llm::Schema::of::<Score>();
    /// assert_eq!(schema.name, "Score");
    /// assert_eq!(schema.schema["properties"]["impact"]["maximum"], 10);
    /// ```
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|it| it.meta_schema = None)
            .with_transform(RecursiveTransform(drop_number_format));
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Self { name: name(&T::schema_name()), schema: schema.to_value() }
    }
}

fn drop_number_format(schema: &mut schemars::Schema) {
    let is_number = |it: &serde_json::Value| matches!(it.as_str(), Some("integer" | "number"));
    let of_number = schema.get("type").is_some_and(|it| match it.as_array() {
        Some(types) => types.iter().any(is_number),
        None => is_number(it),
    });
    if of_number {
        schema.remove("format");
    }
}

/// Converts the name of a type to a schema name that providers accept: at most 64 characters, each of them a letter,
/// a digit, `_` or `-`.
fn name(of: &str) -> String {
    let allowed = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
    of.chars().take(64).map(allowed).collect()
}
