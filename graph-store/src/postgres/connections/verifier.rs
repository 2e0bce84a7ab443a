//! Checks the certificate of the server as `sslmode` requires.

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

/// The certificates of a file.
#[derive(Debug)]
pub(super) struct TrustedCertificates {
    /// The certificates, as authorities that issue other certificates.
    pub(super) roots: RootCertStore,
    /// The certificates themselves, one of which may be that of the server.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

/// Performs the checks that the mode of PostgreSQL requires. They are fewer than the default checks of rustls.
#[derive(Debug)]
pub(super) struct CertificateVerifier {
    /// If `None`, any certificate is accepted, including one that webpki cannot parse.
    pub(super) trusted: Option<TrustedCertificates>,
    /// Whether the certificate must be valid for the host.
    pub(super) checks_host: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trusted) = &self.trusted {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.algorithms.all;
            let chain = verify_server_cert_signed_by_trust_anchor(
                &certificate, &trusted.roots, intermediates, now, algorithms,
            );
            match chain {
                // The file contains the certificate itself. webpki rejects it as the certificate of an authority if it
                // is self-signed, but only after it has checked the validity period.
                Err(Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::Other(_),
                )) if trusted.certificates.iter().any(|it| it == end_entity) => {}
                result => result?,
            }
            if self.checks_host {
                verify_server_name(&certificate, host)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trusted.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trusted.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
