//! JSON Web Tokens: the algorithms that each kind of key accepts, required claims, and forged tokens.

mod rsa;

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use graph_server::http::{Authenticator, Jwt, JwtOptions};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
    },
};
use serde_json::{Value, json};

const SECRET: &[u8] = b"a shared secret of more than 32 bytes";
/// 1 January 2100.
const FAR: u64 = 4_102_444_800;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the part of a token that is signed.
fn message(header: &str, claims: &str) -> String {
    format!("{}.{}", encode(header), encode(claims))
}

fn claims() -> Value {
    json!({ "sub": "ada", "exp": FAR })
}

/// Returns the owner that a token identifies, if the token is valid.
async fn owner(jwt: &Jwt, token: &str) -> Option<String> {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    headers.insert(header::AUTHORIZATION, value);
    jwt.authenticate(&headers).await.ok().flatten().map(|it| it.owner)
}

/// Returns an authenticator for a set of public keys.
fn jwks(keys: &[Value], options: JwtOptions) -> Jwt {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("keys.json");
    std::fs::write(&path, json!({ "keys": keys }).to_string()).unwrap();
    Jwt::with_jwks_file(&path, options).unwrap()
}

/// Returns an authenticator for one public key.
fn one_key(key: Value) -> Jwt {
    jwks(&[key], JwtOptions::default())
}

/// A key that signs tokens.
struct SigningKey {
    algorithm: &'static str,
    /// The public key. Null for shared secrets.
    jwk: Value,
    sign: Box<dyn Fn(&[u8]) -> Vec<u8>>,
}

impl SigningKey {
    fn token(&self, claims: &Value) -> String {
        self.token_with_header(&json!({ "alg": self.algorithm }), claims)
    }

    fn token_with_header(&self, header: &Value, claims: &Value) -> String {
        let message = message(&header.to_string(), &claims.to_string());
        let signature = (self.sign)(message.as_bytes());
        format!("{message}.{}", encode(signature))
    }
}

/// Returns the three algorithms for shared secrets.
fn hmac_keys(secret: &[u8]) -> [SigningKey; 3] {
    let algorithms =
        [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)];
    algorithms.map(|(algorithm, digest)| {
        let key = hmac::Key::new(digest, secret);
        let sign = Box::new(move |message: &[u8]| hmac::sign(&key, message).as_ref().to_vec());
        SigningKey { algorithm, jwk: Value::Null, sign }
    })
}

fn ecdsa_key(
    algorithm: &'static str,
    curve: &str,
    signing: &'static EcdsaSigningAlgorithm,
) -> SigningKey {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random).unwrap();
    // The public key is the byte 4, followed by the two coordinates.
    let point = &pair.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    let jwk = json!({ "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y) });
    let sign =
        Box::new(move |message: &[u8]| pair.sign(&random, message).unwrap().as_ref().to_vec());
    SigningKey { algorithm, jwk, sign }
}

fn es256_key() -> SigningKey {
    ecdsa_key("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
}

/// Returns a new key for each algorithm with elliptic curves.
fn curve_keys() -> [SigningKey; 3] {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key()) });
    let sign = Box::new(move |message: &[u8]| pair.sign(message).as_ref().to_vec());
    let eddsa = SigningKey { algorithm: "EdDSA", jwk, sign };
    [es256_key(), ecdsa_key("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING), eddsa]
}

fn rsa_key(modulus: &str) -> Value {
    json!({ "kty": "RSA", "n": modulus, "e": "AQAB" })
}

#[tokio::test]
async fn shared_secrets_accept_all_hmac_algorithms() {
    let jwt = Jwt::with_secret(SECRET, JwtOptions::default());
    let other = Jwt::with_secret(b"another secret of more than 32 bytes", JwtOptions::default());
    for key in hmac_keys(SECRET) {
        let token = key.token(&claims());
        assert_eq!(owner(&jwt, &token).await.as_deref(), Some("ada"), "{}", key.algorithm);
        assert_eq!(owner(&other, &token).await, None, "{}", key.algorithm);
    }
    for key in curve_keys() {
        assert_eq!(owner(&jwt, &key.token(&claims())).await, None, "{}", key.algorithm);
    }
    for (algorithm, token) in rsa::tokens(message) {
        assert_eq!(owner(&jwt, &token).await, None, "{algorithm}");
    }
}

#[tokio::test]
async fn curve_keys_accept_only_their_own_algorithm() {
    let (keys, others) = (curve_keys(), curve_keys());
    for key in &keys {
        let jwt = one_key(key.jwk.clone());
        for signing in &keys {
            let (is_own, name) = (signing.algorithm == key.algorithm, signing.algorithm);
            let accepted = owner(&jwt, &signing.token(&claims())).await.is_some();
            assert_eq!(accepted, is_own, "a token with {name} for a key with {}", key.algorithm);
            // The signature is valid, but the header may name another algorithm.
            let token = key.token_with_header(&json!({ "alg": name }), &claims());
            let accepted = owner(&jwt, &token).await.is_some();
            assert_eq!(accepted, is_own, "the name {name} for a key with {}", key.algorithm);
        }
        for other in &others {
            assert_eq!(owner(&jwt, &other.token(&claims())).await, None, "{}", other.algorithm);
        }
    }
}

#[tokio::test]
async fn rsa_keys_accept_the_algorithm_that_they_name() {
    for (algorithm, token) in rsa::tokens(message) {
        let accepts = async |key: Value| owner(&one_key(key), &token).await.is_some();
        let unnamed = rsa_key(rsa::MODULUS);
        assert_eq!(accepts(unnamed).await, algorithm.starts_with("RS"), "{algorithm}");
        for (name, _) in rsa::tokens(message) {
            let (mut key, mut other) = (rsa_key(rsa::MODULUS), rsa_key(rsa::OTHER_MODULUS));
            key["alg"] = json!(name);
            other["alg"] = json!(name);
            assert_eq!(accepts(key).await, algorithm == name, "{algorithm} with a key for {name}");
            assert!(!accepts(other).await, "{algorithm} with another key");
        }
    }
}

#[tokio::test]
async fn keys_for_encryption_verify_no_tokens() {
    let (_, token) = rsa::tokens(message).next().unwrap();
    for (field, value) in [("use", "enc"), ("alg", "RSA-OAEP"), ("alg", "HS256"), ("alg", "none")] {
        let mut key = rsa_key(rsa::MODULUS);
        key[field] = json!(value);
        assert_eq!(owner(&one_key(key), &token).await, None, "{field}: {value}");
    }
    let mut key = rsa_key(rsa::MODULUS);
    key["use"] = json!("sig");
    assert!(owner(&one_key(key), &token).await.is_some());
    for curve in curve_keys() {
        let token = curve.token(&claims());
        for (name, is_accepted) in [(curve.algorithm, true), ("ECDH-ES", false)] {
            let mut key = curve.jwk.clone();
            key["alg"] = json!(name);
            assert_eq!(owner(&one_key(key), &token).await.is_some(), is_accepted, "{name}");
        }
    }
}

#[tokio::test]
async fn public_keys_are_not_accepted_as_shared_secrets() {
    let lines = rsa::PUBLIC_KEY.as_bytes().chunks(64).map(|it| str::from_utf8(it).unwrap());
    let lines: Vec<_> = lines.collect();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", lines.join("\n"));
    let secrets = [
        rsa::MODULUS.as_bytes().to_vec(),
        BASE64_URL_SAFE_NO_PAD.decode(rsa::MODULUS).unwrap(),
        BASE64_STANDARD.decode(rsa::PUBLIC_KEY).unwrap(),
        format!("{pem}\n").into_bytes(),
        pem.into_bytes(),
        rsa_key(rsa::MODULUS).to_string().into_bytes(),
    ];
    let mut named = rsa_key(rsa::MODULUS);
    named["alg"] = json!("RS256");
    let keys = [one_key(rsa_key(rsa::MODULUS)), one_key(named)];
    for secret in secrets {
        for signing in hmac_keys(&secret) {
            for jwt in &keys {
                assert_eq!(owner(jwt, &signing.token(&claims())).await, None);
            }
        }
    }
    let curve = es256_key();
    let jwt = one_key(curve.jwk.clone());
    let point = [vec![4], coordinate(&curve, "x"), coordinate(&curve, "y")].concat();
    for signing in hmac_keys(&point) {
        assert_eq!(owner(&jwt, &signing.token(&claims())).await, None);
    }
    // A shared secret in a set of public keys is not accepted either.
    let jwt = one_key(json!({ "kty": "oct", "k": encode(SECRET) }));
    for signing in hmac_keys(SECRET) {
        assert_eq!(owner(&jwt, &signing.token(&claims())).await, None);
    }
}

/// Returns a coordinate of a public key.
fn coordinate(key: &SigningKey, name: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(key.jwk[name].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn unsigned_and_forged_tokens_are_rejected() {
    let (secret, curve) = (&hmac_keys(SECRET)[0], es256_key());
    let keys = [
        Jwt::with_secret(SECRET, JwtOptions::default()),
        one_key(curve.jwk.clone()),
        one_key(rsa_key(rsa::MODULUS)),
    ];
    let mut forged = Vec::new();
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({ "alg": name });
        forged.push(format!("{}.", message(&header.to_string(), &claims().to_string())));
        forged.push(secret.token_with_header(&header, &claims()));
        forged.push(curve.token_with_header(&header, &claims()));
    }
    forged.push(secret.token_with_header(&json!({ "typ": "JWT" }), &claims()));
    for name in ["HS256", "ES256", "RS256", "EdDSA"] {
        let message = message(&json!({ "alg": name }).to_string(), &claims().to_string());
        // A signature of zeros is valid for faulty implementations of ECDSA.
        let signatures = [String::new(), encode([0_u8; 64]), encode([0_u8; 256])];
        forged.extend(signatures.map(|it| format!("{message}.{it}")));
    }
    // Keys that the token itself names.
    let attacker = es256_key();
    let headers = [
        json!({ "alg": "ES256", "jwk": attacker.jwk }),
        json!({ "alg": "ES256", "jku": "http://127.0.0.1:9/keys" }),
        json!({ "alg": "ES256", "kid": "../../keys.json" }),
    ];
    forged.extend(headers.map(|it| attacker.token_with_header(&it, &claims())));
    // Claims that were changed after the signature.
    for token in [secret.token(&claims()), curve.token(&claims())] {
        let mut parts: Vec<_> = token.split('.').map(str::to_owned).collect();
        parts[1] = encode(json!({ "sub": "root", "exp": FAR }).to_string());
        forged.push(parts.join("."));
    }
    for token in forged {
        for jwt in &keys {
            assert_eq!(owner(jwt, &token).await, None, "{token}");
        }
    }
}

#[tokio::test]
async fn claims_are_checked_for_each_kind_of_key() {
    let options = || JwtOptions::default().issuer("https://id.example").audience("graphs");
    let curve = es256_key();
    let kinds = [
        (Jwt::with_secret(SECRET, options()), &hmac_keys(SECRET)[2]),
        (jwks(std::slice::from_ref(&curve.jwk), options()), &curve),
    ];
    let valid =
        json!({ "sub": "ada", "exp": FAR, "nbf": 1, "iss": "https://id.example", "aud": "graphs" });
    let with = |name: &str, value: Value| {
        let mut claims = valid.clone();
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = valid.clone();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let accepted = [valid.clone(), without("nbf"), with("aud", json!(["other", "graphs"]))];
    let rejected = [
        with("exp", json!(1)),
        with("exp", json!("never")),
        with("nbf", json!(FAR)),
        with("iss", json!("https://other.example")),
        with("aud", json!("other")),
        with("aud", json!(["other"])),
        with("sub", json!(7)),
        without("exp"),
        without("sub"),
        without("iss"),
        without("aud"),
    ];
    for (jwt, key) in &kinds {
        for claims in &accepted {
            let owner = owner(jwt, &key.token(claims)).await;
            assert_eq!(owner.as_deref(), Some("ada"), "{}: {claims}", key.algorithm);
        }
        for claims in &rejected {
            assert_eq!(owner(jwt, &key.token(claims)).await, None, "{}: {claims}", key.algorithm);
        }
    }
}

#[tokio::test]
async fn key_ids_select_among_several_keys() {
    let (mut first, mut second) = (es256_key(), es256_key());
    first.jwk["kid"] = json!("a");
    second.jwk["kid"] = json!("b");
    let jwt = jwks(&[first.jwk.clone(), second.jwk.clone()], JwtOptions::default());
    let token = |key: &SigningKey, id: &str| {
        key.token_with_header(&json!({ "alg": "ES256", "kid": id }), &claims())
    };
    assert!(owner(&jwt, &token(&first, "a")).await.is_some());
    assert!(owner(&jwt, &token(&second, "b")).await.is_some());
    assert_eq!(owner(&jwt, &token(&first, "b")).await, None);
    assert_eq!(owner(&jwt, &token(&first, "c")).await, None);
    assert_eq!(owner(&jwt, &first.token(&claims())).await, None);
}
