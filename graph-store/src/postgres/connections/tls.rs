//! TLS with rustls.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, RootCertStore,
    client::danger::ServerCertVerifier,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect},
};
use tokio_rustls::{TlsConnector, client};

use super::verifier::{CertificateVerifier, TrustedCertificates};

/// How the certificate of the server is checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// Any certificate is accepted.
    Nothing,
    /// The certificate must be in this file, or be issued by an authority of the file.
    Authority(String),
    /// The certificate must also be valid for the host. Without a file, the operating system's authorities are trusted.
    AuthorityAndHost(Option<String>),
}

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Reads the trusted authorities. Fails with a description of the problem if they are unusable.
    pub(super) fn new(verification: &Verification) -> Result<Self, String> {
        // The application's crypto provider, if it has installed one.
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
        let algorithms = provider.signature_verification_algorithms;
        let check = |trusted, checks_host| {
            Arc::new(CertificateVerifier { trusted, checks_host, algorithms })
        };
        let verifier: Arc<dyn ServerCertVerifier> = match verification {
            Verification::Nothing => check(None, false),
            Verification::Authority(path) => check(Some(read_trusted(path)?), false),
            Verification::AuthorityAndHost(Some(path)) => check(Some(read_trusted(path)?), true),
            Verification::AuthorityAndHost(None) => {
                let verifier = Verifier::new(provider.clone()).map_err(|error| {
                    format!("cannot read the certificates of the operating system: {error}; add sslrootcert=PATH")
                })?;
                Arc::new(verifier)
            }
        };
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| format!("cannot use TLS: {error}"))?;
        let mut config =
            config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        // Required by the server if the URL contains `sslnegotiation=direct`.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

fn read_trusted(path: &str) -> Result<TrustedCertificates, String> {
    let fix = "sslrootcert must name a file with certificates in PEM format";
    let unusable = |error: &dyn std::fmt::Display| format!("cannot read `{path}`: {error}; {fix}");
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))? {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate.clone()).map_err(|error| unusable(&error))?;
        certificates.push(certificate);
    }
    match roots.is_empty() {
        true => Err(format!("`{path}` contains no certificate; {fix}")),
        false => Ok(TrustedCertificates { roots, certificates }),
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = TlsStream;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, io::Error> {
        // The host is empty for a Unix socket, whose connections do not use TLS, so it is not parsed here.
        Ok(Handshake { connector: self.0.clone(), host: host.to_owned() })
    }
}

/// A handshake with one host.
pub(super) struct Handshake {
    connector: TlsConnector,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = TlsStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsStream>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let host = ServerName::try_from(self.host)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            self.connector.connect(host, stream).await.map(TlsStream)
        })
    }
}

/// An encrypted connection.
pub(super) struct TlsStream(client::TlsStream<Socket>);

impl tokio_postgres::tls::TlsStream for TlsStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
