//! TLS for a test server, with certificates that the program `openssl` creates.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use super::{Server, shared};

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
    #[must_use]
    pub fn start() -> Option<Self> {
        // Reports a missing installation.
        shared()?;
        let server = Server::start().expect("PostgreSQL is installed");
        let dir = server.dir().join("certificates");
        fs::create_dir(&dir).expect("the directory of the server exists");
        let [root, other_root] = ["root", "other"].map(|name| create_authority(&dir, name));
        create_certificate(&dir);
        // The server reads its key only if the key belongs to the server's user.
        let owner = server.dir().metadata().expect("the directory of the server exists");
        let key = dir.join("server.key");
        chown(&key, Some(owner.uid()), Some(owner.gid())).expect("the key exists");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("the key exists");
        for (setting, file) in [("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")] {
            let path = dir.join(file);
            let alter = format!("ALTER SYSTEM SET {setting} = '{}'", path.display());
            server.sql(server.url(), &alter);
        }
        server.sql(server.url(), "ALTER SYSTEM SET ssl = on");
        server.sql(server.url(), "SELECT pg_reload_conf()");
        while server.sql(server.url(), "SHOW ssl") != "on" {
            thread::sleep(Duration::from_millis(20));
        }
        Some(Self { server, root, other_root })
    }

    /// Creates an empty database. Returns its URL with a password, a host of the certificate, and these options.
    #[must_use]
    #[track_caller]
    pub fn fresh_database(&self, options: &str) -> String {
        let url = self.server.fresh_database();
        format!("{}?{options}", url.replace("postgres@127.0.0.1", "postgres:s3cret@localhost"))
    }

    /// Returns the options with which a client checks the certificate of the server and its host.
    #[must_use]
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
