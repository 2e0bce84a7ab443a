//! Selection of the tools that a middleware applies to.

/// The tools that a middleware applies to. By default, all.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolFilter(Option<Vec<String>>);

impl ToolFilter {
    /// Selects only the tools with these names.
    pub(super) fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(Some(names.into_iter().map(Into::into).collect()))
    }

    pub(super) fn includes(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|it| it == tool))
    }
}
