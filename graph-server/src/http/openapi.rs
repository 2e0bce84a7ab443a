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

/// Iterates over the operations of a path. The servers use only GET and POST.
fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut path.get, &mut path.post].into_iter().flatten()
}
