//! What an OpenAPI document says of keys.

use utoipa::openapi::{
    OpenApi,
    path::{Operation, PathItem},
    security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

use super::Guard;

/// The names of the two ways to show a key.
const BEARER: &str = "bearer";
const HEADER: &str = "api_key";

impl Guard {
    /// Says in the document of locked routes how a key is shown, where one is needed.
    pub fn describe(&self, locked: &mut OpenApi) {
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

/// The operations at a path, of the methods that anything here has.
fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut path.get, &mut path.post].into_iter().flatten()
}
