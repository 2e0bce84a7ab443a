//! Verifies the signatures of JSON Web Tokens with ring, which the TLS library uses too.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind, Result, new_error},
    signature::{self, Verifier},
};
use ring::{
    hmac,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
        RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
        UnparsedPublicKey, VerificationAlgorithm,
    },
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(unsupported()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Selects this module for the verification of tokens, unless the application has already selected a provider.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn unsupported() -> Error {
    new_error(ErrorKind::InvalidAlgorithm)
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let key = match (hmac_algorithm(*algorithm), rsa_parameters(*algorithm), key.kind()) {
        (Some(algorithm), _, DecodingKeyKind::SecretOrDer(secret)) => {
            Key::Hmac(hmac::Key::new(algorithm, secret))
        }
        (_, Some(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Key::Rsa(parameters, RsaPublicKeyComponents { n: n.clone(), e: e.clone() })
        }
        (None, None, DecodingKeyKind::SecretOrDer(key)) => {
            Key::Curve(UnparsedPublicKey::new(curve(*algorithm)?, key.clone()))
        }
        _ => return Err(new_error(ErrorKind::InvalidKeyFormat)),
    };
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key }))
}

fn hmac_algorithm(algorithm: Algorithm) -> Option<hmac::Algorithm> {
    match algorithm {
        Algorithm::HS256 => Some(hmac::HMAC_SHA256),
        Algorithm::HS384 => Some(hmac::HMAC_SHA384),
        Algorithm::HS512 => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

fn curve(algorithm: Algorithm) -> Result<&'static dyn VerificationAlgorithm> {
    match algorithm {
        Algorithm::ES256 => Ok(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Ok(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Ok(&ED25519),
        _ => Err(unsupported()),
    }
}

enum Key {
    Hmac(hmac::Key),
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
    Curve(UnparsedPublicKey<Vec<u8>>),
}

struct RingVerifier {
    algorithm: Algorithm,
    key: Key,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let verified = match &self.key {
            Key::Hmac(key) => hmac::verify(key, message, signature),
            Key::Rsa(parameters, key) => key.verify(parameters, message, signature),
            Key::Curve(key) => key.verify(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}
