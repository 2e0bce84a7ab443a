//! JSON whose strings are templates.

use serde_json::Value;

use super::{source::TemplateSource, template::Template};

/// JSON whose strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Plain(Value),
    Template(Template),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    /// Parses the strings of JSON as templates.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Template(Template::parse(text)?),
            Value::Array(items) => {
                Self::Array(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(key, it)| Ok((key.clone(), Self::parse(it)?)));
                Self::Object(members.collect::<Result<_, String>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    /// Returns all templates in the tree.
    pub(crate) fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Plain(_) => Vec::new(),
            Self::Template(template) => vec![template],
            Self::Array(items) => items.iter().flat_map(Self::templates).collect(),
            Self::Object(members) => members.iter().flat_map(|it| it.1.templates()).collect(),
        }
    }

    /// Returns the names that the templates in the tree use.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.templates().into_iter().flat_map(Template::names).collect()
    }

    /// Returns whether every capture, phrase and label that the templates use is available.
    pub(crate) fn can_fill(&self, source: &TemplateSource<'_>) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Template(template) => template.can_fill(source),
            Self::Array(items) => items.iter().all(|it| it.can_fill(source)),
            Self::Object(members) => members.iter().all(|it| it.1.can_fill(source)),
        }
    }

    /// Returns the JSON with all templates filled.
    pub(crate) fn fill(&self, source: &mut TemplateSource<'_>) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::Template(template) => template.fill_value(source),
            Self::Array(items) => items.iter().map(|it| it.fill(source)).collect(),
            Self::Object(members) => Value::Object(
                members.iter().map(|(key, it)| (key.clone(), it.fill(source))).collect(),
            ),
        }
    }
}
