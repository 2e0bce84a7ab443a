//! Adds authentication and the error responses of all routes to OpenAPI documents.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Content, OpenApi, Ref, RefOr, Response, ResponseBuilder,
        path::{Operation, Parameter, ParameterIn, PathItem},
        security::{
            ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
        },
    },
};

use super::{Guard, ProblemBody, ProblemDetail};

/// Name of the authentication scheme that uses the `Authorization` header.
const BEARER: &str = "bearer";
/// Name of the authentication scheme that uses the `X-Api-Key` header.
const HEADER: &str = "api_key";

impl Guard {
    /// Adds the authentication schemes to the OpenAPI document of the locked routes, if the guard requires credentials.
    pub fn add_security_schemes(&self, locked: &mut OpenApi) {
        if !self.needs_key() {
            return;
        }
        let components = locked.components.get_or_insert_default();
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme(BEARER, bearer);
        let header = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-Api-Key")));
        components.add_security_scheme(HEADER, header);
        for operation in locked.paths.paths.values_mut().flat_map(operations) {
            let either = [BEARER, HEADER].map(|it| SecurityRequirement::new(it, [""; 0]));
            operation.security = Some(either.into());
            add_error(operation, 401, "The credentials are missing or invalid");
        }
    }

    /// Adds the error responses that do not depend on the operation: those of the guard, and those of the extractors
    /// [`Body`](super::Body) and [`Params`](super::Params). An operation documents its other errors itself, and can
    /// document these errors more precisely.
    pub fn add_error_responses(document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        components.schemas.insert(ProblemBody::name().into(), ProblemBody::schema());
        components.schemas.insert(ProblemDetail::name().into(), ProblemDetail::schema());
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            add_error(operation, 403, "The host name or the origin of the request is not allowed");
            add_error(operation, 429, "Too many requests");
            let is_query = |it: &RefOr<Parameter>| match it {
                RefOr::T(it) => it.parameter_in == ParameterIn::Query,
                RefOr::Ref(_) => false,
            };
            if operation.parameters.iter().flatten().any(is_query) {
                add_error(operation, 422, "A parameter is invalid");
            }
            if operation.request_body.is_some() {
                add_error(operation, 408, "The body was not received in time");
                add_error(operation, 413, "The body is too large");
                add_error(operation, 415, "The body is not JSON");
                add_error(operation, 422, "The body is invalid");
            }
        }
    }
}

/// Adds an error response to an operation, unless the operation documents the status itself.
fn add_error(operation: &mut Operation, status: u16, description: &str) {
    let responses = &mut operation.responses.responses;
    responses.entry(status.to_string()).or_insert_with(|| error_response(description));
}

fn error_response(description: &str) -> RefOr<Response> {
    let content = Content::new(Some(Ref::from_schema_name(ProblemBody::name())));
    let response = ResponseBuilder::new().description(description);
    RefOr::T(response.content("application/json", content).build())
}

/// Iterates over the operations of a path.
fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = path;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::{
        HttpMethod, OpenApiBuilder, Paths, path::OperationBuilder, request_body::RequestBody,
    };

    use super::*;
    use crate::http::KeyHash;

    #[test]
    fn errors_of_guard_and_extractors_are_documented() {
        let query = Parameter::builder().name("limit").parameter_in(ParameterIn::Query);
        let own = ResponseBuilder::new().description("Too many runs");
        let plain = OperationBuilder::new().response("429", own);
        let with_query = OperationBuilder::new().parameter(query.build());
        let with_body = OperationBuilder::new().request_body(Some(RequestBody::new()));
        let mut paths = Paths::new();
        for (method, operation) in
            [(HttpMethod::Get, plain), (HttpMethod::Put, with_query), (HttpMethod::Post, with_body)]
        {
            paths.add_path_operation("/a", vec![method], operation.build());
        }
        let mut document = OpenApiBuilder::new().paths(paths).build();
        Guard::add_error_responses(&mut document);
        let item = document.paths.paths.remove("/a").unwrap();
        let statuses = |it: Option<Operation>| -> Vec<String> {
            it.unwrap().responses.responses.into_keys().collect()
        };
        let get = item.get.clone().unwrap();
        assert_eq!(statuses(item.get), ["403", "429"]);
        assert_eq!(statuses(item.put), ["403", "422", "429"]);
        assert_eq!(statuses(item.post), ["403", "408", "413", "415", "422", "429"]);
        let RefOr::T(own) = &get.responses.responses["429"] else { panic!("a reference") };
        assert_eq!(own.description, "Too many runs");
        assert!(document.components.unwrap().schemas.contains_key("ProblemBody"));
    }

    #[test]
    fn operations_of_all_methods_require_credentials() {
        let methods = [HttpMethod::Get, HttpMethod::Put, HttpMethod::Delete, HttpMethod::Patch];
        let mut paths = Paths::new();
        paths.add_path_operation("/a", methods.into(), OperationBuilder::new().build());
        let mut document = OpenApiBuilder::new().paths(paths).build();
        Guard::new().key(KeyHash::of("k")).add_security_schemes(&mut document);
        let mut path = document.paths.paths.remove("/a").unwrap();
        let security: Vec<_> = operations(&mut path).map(|it| it.security.clone()).collect();
        assert_eq!(security.len(), 4);
        assert!(security.iter().all(|it| it.as_ref().is_some_and(|it| it.len() == 2)));
    }
}
