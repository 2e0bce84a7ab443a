//! TLS for a test server, with certificates that the program `openssl` creates.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use crate::postgres::{Server, shared};

/// A server with `ssl = on`, whose certificate is valid for `localhost`.
#[derive(Debug)]
pub struct TlsServer {
    /// The server.
    pub server: Server,
    /// Certificate of the authority that issued the certificate of the server.
    pub root: PathBuf,
    /// Certificate of another authority.
    pub other_root: PathBuf,
}

impl TlsServer {
    /// Starts a server. If PostgreSQL is not installed, prints which test is skipped and returns `None`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start, or if `openssl` is not installed.
    pub fn start() -> Option<Self> {
        // Prints that the test is skipped if PostgreSQL is not installed.
        shared()?;
        let server = Server::start().expect("PostgreSQL is installed");
        let dir = server.dir().join("certificates");
        fs::create_dir(&dir).expect("the directory of the server exists");
        let [root, other_root] = ["root", "other"].map(|name| create_authority(&dir, name));
        create_certificate(&dir);
        let tls = Self { server, root, other_root };
        tls.use_certificate("server");
        Some(tls)
    }

    /// Replaces the certificate of the server with a self-signed one for `localhost`, created as PostgreSQL's
    /// documentation describes. Returns the path of the new certificate.
    pub fn use_self_signed_certificate(&self) -> PathBuf {
        let names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost";
        let files = "-keyout self-signed.key -out self-signed.crt";
        openssl(&self.certificates(), &format!("req -x509 {NEW_KEY} {files} -days 2 {names}"));
        self.use_certificate("self-signed")
    }

    /// Replaces the certificate of the server with an X.509 certificate of version 1, which has no extensions.
    pub fn use_version_1_certificate(&self) {
        let dir = self.certificates();
        let issuer = "-CA root.crt -CAkey root.key -CAcreateserial";
        openssl(&dir, &format!("x509 -req {issuer} -in server.csr -out version-1.crt -days 2"));
        fs::copy(dir.join("server.key"), dir.join("version-1.key")).expect("the key exists");
        self.use_certificate("version-1");
    }

    /// Sets the files `NAME.crt` and `NAME.key` for new connections. Returns the path of the certificate.
    fn use_certificate(&self, name: &str) -> PathBuf {
        let [certificate, key] =
            ["crt", "key"].map(|it| self.certificates().join(format!("{name}.{it}")));
        // The server reads its key only if the key belongs to the server's user.
        let owner = self.server.dir().metadata().expect("the directory of the server exists");
        chown(&key, Some(owner.uid()), Some(owner.gid())).expect("the key exists");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("the key exists");
        let sql = |statement: &str| self.server.sql(self.server.url(), statement);
        let path = certificate.display().to_string();
        sql(&format!("ALTER SYSTEM SET ssl_cert_file = '{path}'"));
        sql(&format!("ALTER SYSTEM SET ssl_key_file = '{}'", key.display()));
        sql("ALTER SYSTEM SET ssl = on");
        sql("SELECT pg_reload_conf()");
        while sql("SHOW ssl") != "on" || sql("SHOW ssl_cert_file") != path {
            thread::sleep(Duration::from_millis(20));
        }
        certificate
    }

    fn certificates(&self) -> PathBuf {
        self.server.dir().join("certificates")
    }

    /// Creates an empty database. Returns its URL, which contains a password, the host name in the certificate, and
    /// these options.
    #[track_caller]
    pub fn fresh_database(&self, options: &str) -> String {
        let url = self.server.fresh_database();
        format!("{}?{options}", url.replace("postgres@127.0.0.1", "postgres:s3cret@localhost"))
    }

    /// Returns the options with which a client checks the certificate of the server and its host.
    pub fn verify_full(&self) -> String {
        format!("sslmode=verify-full&sslrootcert={}", self.root.display())
    }
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn create_authority(dir: &Path, name: &str) -> PathBuf {
    let files = format!("-keyout {name}.key -out {name}.crt");
    openssl(dir, &format!("req -x509 {NEW_KEY} {files} -days 2 -subj /CN={name}"));
    dir.join(format!("{name}.crt"))
}

fn create_certificate(dir: &Path) {
    fs::write(dir.join("names"), "subjectAltName = DNS:localhost\n").expect("the directory exists");
    openssl(dir, &format!("req {NEW_KEY} -keyout server.key -out server.csr -subj /CN=server"));
    let issuer = "-CA root.crt -CAkey root.key -CAcreateserial";
    let request = "-in server.csr -out server.crt -days 2 -extfile names";
    openssl(dir, &format!("x509 -req {issuer} {request}"));
}

fn openssl(dir: &Path, args: &str) {
    let output = Command::new("openssl").args(args.split(' ')).current_dir(dir).output();
    let output = output.expect("install the program `openssl`");
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
}
