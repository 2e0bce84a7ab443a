//! One operation of the API.

use crate::langgraph::authorize::{
    Action::{self, Create, Delete, Read},
    Resource,
};

/// An operation: a method, a path, and the access that it needs.
pub(in crate::langgraph) struct Operation {
    /// Method, in lower case.
    pub(in crate::langgraph) method: &'static str,
    pub(in crate::langgraph) path: &'static str,
    pub(in crate::langgraph) tag: Tag,
    /// Access that clients need. `None`: the operation needs no credentials.
    pub(in crate::langgraph) access: Option<(Resource, Action)>,
    pub(in crate::langgraph) summary: &'static str,
    /// Query parameters and their schemas.
    pub(in crate::langgraph) query: &'static [(&'static str, &'static str)],
    /// Schema of the body.
    pub(in crate::langgraph) body: Option<&'static str>,
    pub(in crate::langgraph) answer: Answer,
}

/// Response to a request that succeeds.
pub(in crate::langgraph) enum Answer {
    /// An object with this schema.
    Object(&'static str),
    /// An object with this schema, or no content with the status 204 if the client prefers a minimal response.
    ObjectOrEmpty(&'static str),
    /// A list of objects with this schema.
    List(&'static str),
    /// Any JSON value.
    Any,
    /// Any JSON value, or no content with the status 202.
    AnyOrAccepted,
    Count,
    Events,
    /// A stream of events, or no content with the status 204.
    EventsOrEmpty,
    Text,
    /// No content.
    Empty,
}

impl Answer {
    pub(in crate::langgraph) fn status(&self) -> &'static str {
        match self {
            Self::Empty => "204",
            _ => "200",
        }
    }
}

/// A group of operations.
#[derive(Clone, Copy)]
pub(in crate::langgraph) struct Tag {
    pub(in crate::langgraph) name: &'static str,
    /// Resource that the operations access.
    resource: Resource,
}

pub(super) const fn tag(name: &'static str, resource: Resource) -> Tag {
    Tag { name, resource }
}

/// Returns a GET operation that reads. Its answer is any JSON value.
pub(super) const fn get(tag: Tag, path: &'static str, summary: &'static str) -> Operation {
    let (access, answer) = (Some((tag.resource, Read)), Answer::Any);
    Operation { method: "get", path, tag, access, summary, query: &[], body: None, answer }
}

/// Returns a POST operation that creates. Its answer is any JSON value.
pub(super) const fn post(tag: Tag, path: &'static str, summary: &'static str) -> Operation {
    get(tag, path, summary).method("post", Create)
}

/// Returns a DELETE operation. Its answer is empty.
pub(super) const fn delete(tag: Tag, path: &'static str, summary: &'static str) -> Operation {
    get(tag, path, summary).answer(Answer::Empty).method("delete", Delete)
}

impl Operation {
    pub(super) const fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    /// Sets the method and the action.
    pub(super) const fn method(mut self, method: &'static str, action: Action) -> Self {
        self.method = method;
        self.action(action)
    }

    /// Sets the action that the operation performs on the resource of its tag.
    pub(super) const fn action(self, action: Action) -> Self {
        let resource = self.tag.resource;
        self.access(resource, action)
    }

    /// Sets the resource that the operation accesses and the action that it performs.
    pub(super) const fn access(mut self, resource: Resource, action: Action) -> Self {
        self.access = Some((resource, action));
        self
    }

    /// Allows the operation without credentials.
    pub(super) const fn open(mut self) -> Self {
        self.access = None;
        self
    }

    /// Sets the schema of the body.
    pub(super) const fn body(mut self, schema: &'static str) -> Self {
        self.body = Some(schema);
        self
    }

    pub(super) const fn answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }
}
