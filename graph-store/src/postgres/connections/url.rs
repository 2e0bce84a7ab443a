//! Database URLs, including TLS modes and options that `tokio-postgres` does not support.

use std::{error::Error, str::FromStr};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::tls::{Tls, Verification};

/// Parses a URL. The error describes the problem and the fix, without the URL, which may contain a password.
pub(super) fn parse(url: &str) -> Result<(Config, Tls), String> {
    let (url, options) = split_tls_options(url)?;
    let mut config = Config::from_str(&url).map_err(|error| describe(&error))?;
    let is_ambiguous = |it: &Host| matches!(it, Host::Tcp(host) if host.contains('@'));
    if config.get_hosts().iter().any(is_ambiguous) {
        return Err("the host contains `@`; encode `@` in the password as %40".to_owned());
    }
    let (mode, verification) = options.verification()?;
    // In a connection string that is not a URL, `tokio-postgres` has already parsed the mode.
    if let Some(mode) = mode {
        config.ssl_mode(mode);
    }
    // TLS needs a host name, even if the connection string contains only `hostaddr`.
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    Ok((config, Tls::new(&verification)?))
}

/// Describes a malformed connection string without quoting it.
fn describe(error: &tokio_postgres::Error) -> String {
    // This cause contains only the name of a known option. Other causes may quote the connection string.
    let cause = error.source().map(ToString::to_string);
    let cause = cause.filter(|it| it.starts_with("invalid value for option"));
    let cause = cause.as_deref().unwrap_or("it is malformed or contains an unknown option");
    format!(
        "invalid connection string: {cause}; the URL must have the form postgresql://user:password@host:port/database, \
         with options such as ?sslmode=verify-full&sslrootcert=PATH"
    )
}

/// Rejects a URL in which the end of the password is uncertain: one with a second `@`, or with options before the first
/// `@`.
fn check_separators(url: &str) -> Result<(), String> {
    let Some((credentials, rest)) = url.split_once('@') else { return Ok(()) };
    let has_options = credentials.split_once('?').is_some_and(|(_, it)| it.contains('='));
    if has_options || rest.contains('@') {
        let problem = "the URL is ambiguous; write `@` in the options of the URL as %40, encode `@` in the password as \
                       %40, and `?` in the password as %3F";
        return Err(problem.to_owned());
    }
    Ok(())
}

/// The TLS options of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
struct TlsOptions {
    mode: Option<String>,
    root_file: Option<String>,
}

impl TlsOptions {
    fn verification(&self) -> Result<(Option<SslMode>, Verification), String> {
        let mode = match self.mode.as_deref() {
            None => None,
            Some("disable") => Some(SslMode::Disable),
            Some("prefer") => Some(SslMode::Prefer),
            Some("require" | "verify-ca" | "verify-full") => Some(SslMode::Require),
            Some(other) => {
                return Err(format!(
                    "sslmode={other} is not supported; write sslmode=disable, prefer, require, verify-ca or verify-full"
                ));
            }
        };
        let verification = match (self.mode.as_deref(), self.root_file.as_deref()) {
            // As in libpq, `system` selects the certificate authorities of the operating system.
            (Some("verify-full"), None | Some("system")) => Verification::AuthorityAndHost(None),
            (Some("verify-full"), Some(path)) => {
                Verification::AuthorityAndHost(Some(path.to_owned()))
            }
            (Some("verify-ca"), None | Some("system")) => {
                let problem = "sslmode=verify-ca needs the certificate of the authority; add sslrootcert=PATH, or write \
                               sslmode=verify-full to trust the authorities of the operating system";
                return Err(problem.to_owned());
            }
            (Some("require" | "verify-ca"), Some(path)) if path != "system" => {
                Verification::Authority(path.to_owned())
            }
            (_, Some(_)) => {
                let problem =
                    "sslrootcert has no effect with this sslmode; write sslmode=verify-full";
                return Err(problem.to_owned());
            }
            (_, None) => Verification::Nothing,
        };
        Ok((mode, verification))
    }
}

/// Splits the TLS options off a URL. Returns a connection string that is not a URL unchanged.
fn split_tls_options(url: &str) -> Result<(String, TlsOptions), String> {
    let mut options = TlsOptions::default();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Ok((url.to_owned(), options));
    }
    check_separators(url)?;
    // The password may contain a question mark.
    let credentials = url.find('@').unwrap_or_default();
    let Some((before, query)) = url[credentials..].split_once('?') else {
        return Ok((url.to_owned(), options));
    };
    let mut others = Vec::new();
    for pair in query.split('&') {
        let option = match pair.split_once('=') {
            Some(("sslmode", value)) => (&mut options.mode, value),
            Some(("sslrootcert", value)) => (&mut options.root_file, value),
            _ => {
                others.push(pair);
                continue;
            }
        };
        let value = percent_decode_str(option.1).decode_utf8();
        let value = value.map_err(|error| {
            format!("the value of sslmode or sslrootcert is not UTF-8: {error}")
        })?;
        *option.0 = Some(value.into_owned());
    }
    let url = format!("{}{before}", &url[..credentials]);
    match others.is_empty() {
        true => Ok((url, options)),
        false => Ok((format!("{url}?{}", others.join("&")), options)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verification(url: &str) -> Result<(Option<SslMode>, Verification), String> {
        split_tls_options(url).unwrap().1.verification()
    }

    #[test]
    fn tls_options_are_split_off() {
        let url = "postgresql://u:p?w@h/d?sslmode=verify-ca&connect_timeout=3&sslrootcert=/a%20b&options=-c%20x%3Dy";
        let (rest, options) = split_tls_options(url).unwrap();
        assert_eq!(rest, "postgresql://u:p?w@h/d?connect_timeout=3&options=-c%20x%3Dy");
        assert_eq!(options.mode.as_deref(), Some("verify-ca"));
        assert_eq!(options.root_file.as_deref(), Some("/a b"));
        assert_eq!(
            split_tls_options("postgresql://h/d?sslmode=require").unwrap().0,
            "postgresql://h/d"
        );
    }

    #[test]
    fn sslmode_selects_the_verification() {
        let nothing = Verification::Nothing;
        let root = || "r".to_owned();
        for (options, expected) in [
            ("", (None, nothing)),
            ("?sslmode=disable", (Some(SslMode::Disable), Verification::Nothing)),
            ("?sslmode=prefer", (Some(SslMode::Prefer), Verification::Nothing)),
            ("?sslmode=require", (Some(SslMode::Require), Verification::Nothing)),
            (
                "?sslmode=require&sslrootcert=r",
                (Some(SslMode::Require), Verification::Authority(root())),
            ),
            (
                "?sslmode=verify-ca&sslrootcert=r",
                (Some(SslMode::Require), Verification::Authority(root())),
            ),
            (
                "?sslmode=verify-full&sslrootcert=r",
                (Some(SslMode::Require), Verification::AuthorityAndHost(Some(root()))),
            ),
            (
                "?sslmode=verify-full",
                (Some(SslMode::Require), Verification::AuthorityAndHost(None)),
            ),
            (
                "?sslmode=verify-full&sslrootcert=system",
                (Some(SslMode::Require), Verification::AuthorityAndHost(None)),
            ),
        ] {
            assert_eq!(
                verification(&format!("postgresql://u@h/d{options}")),
                Ok(expected),
                "{options}"
            );
        }
    }

    #[test]
    fn unusable_options_are_rejected_with_a_fix() {
        for (options, says) in [
            ("sslmode=allow", "write sslmode=disable, prefer, require, verify-ca or verify-full"),
            ("sslmode=verify-ca", "add sslrootcert=PATH"),
            ("sslmode=prefer&sslrootcert=r", "sslrootcert has no effect with this sslmode"),
            ("sslmode=require&sslrootcert=system", "write sslmode=verify-full"),
            ("sslmode=verify-full&sslrootcert=/no/such/file", "cannot read `/no/such/file`"),
            ("sslcert=c", "contains an unknown option; the URL must have the form postgresql://"),
            ("sslmode=%ff", "the value of sslmode or sslrootcert is not UTF-8"),
            ("connect_timeout=soon", "invalid value for option `connect_timeout`"),
        ] {
            let error = parse(&format!("postgresql://u:s3cret@h/d?{options}")).err().unwrap();
            assert!(error.contains(says) && !error.contains("s3cret"), "{error}");
        }
        let error = parse("host=h sslmode=verify-full").err().unwrap();
        assert!(error.contains("?sslmode=verify-full&sslrootcert=PATH"), "{error}");
    }

    #[test]
    fn errors_contain_no_part_of_the_password() {
        for url in [
            "postgresql+asyncpg://app:s3cret@db/app?sslmode=require",
            " postgresql://app:s3cret@db/app?sslmode=require",
            "app:s3cret@db/app",
            "host=db password=a s3cret=b",
            "host=db password='s3cret",
            "host=app:s3cret@db",
            "postgresql://app:s3cret/app",
            "postgresql://app:x@s3cret@db/app",
            "postgresql://app:x%40@s3cret%40db/app",
            "postgresql://app:x@s3cret/y@db/app",
            "postgresql://app:x@y?sslmode=s3cret@db/app",
            "postgresql://app:x?sslmode=s3cret@db/app",
            "postgresql://app:x@db/app?s3cret",
            "postgresql://app:x@db/app?s3cret=1",
        ] {
            let error = parse(url).err().unwrap();
            assert!(!error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn an_unencoded_at_sign_in_an_option_is_rejected() {
        for address in ["db.example/app", "db.example:5432/app", "db.example", "u:p@db.example/app"]
        {
            let url =
                format!("postgresql://{address}?sslmode=verify-full&application_name=jobs@eu");
            let error = parse(&url).err().unwrap();
            assert!(error.contains("write `@` in the options of the URL as %40"), "{error}");
            let url = format!("postgresql://{address}?sslmode=require&application_name=jobs%40eu");
            let (config, _) = parse(&url).unwrap();
            assert_eq!(config.get_application_name(), Some("jobs@eu"));
            assert_eq!(config.get_hosts(), [Host::Tcp("db.example".to_owned())]);
        }
    }
}
