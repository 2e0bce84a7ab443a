//! Adds authentication to OpenAPI documents.

use utoipa::openapi::{
    OpenApi,
    path::{Operation, PathItem},
    security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

use super::Guard;

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
        }
    }
}

/// Iterates over the operations of a path.
fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = path;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::{HttpMethod, OpenApiBuilder, Paths, path::OperationBuilder};

    use super::*;
    use crate::http::KeyHash;

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
