//! Which certificates are trusted.
//!
//! ```text
//! SSL_CERT_FILE, SSL_CERT_DIR     in place of Mozilla's roots, which are compiled in
//! X509_CERT_DIR                   besides them: the authorities of the grid
//! ```

use std::io::ErrorKind;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::rustls;

use crate::{Env, Error};

/// TLS 1.2 and 1.3 with ring.
///
/// # Errors
/// [`Error::Setting`] for a file of certificates that is there and holds none.
pub(super) fn config(env: &Env, warnings: &mut Vec<String>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Setting { what: "TLS".to_owned(), reason: e.to_string() })?;
    let roots = Arc::new(roots(env, warnings)?);
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn roots(env: &Env, warnings: &mut Vec<String>) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    let named = match env.get("SSL_CERT_FILE") {
        Some(file) => add_file(&mut store, file, warnings)?,
        None => false,
    };
    let dirs = env.get("SSL_CERT_DIR");
    if !named && dirs.is_none() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for dir in [dirs, env.get("X509_CERT_DIR")].into_iter().flatten().flat_map(|d| d.split(':')) {
        // Like OpenSSL, ignores files that are not certificates.
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| path.is_file()) {
            let certificates = CertificateDer::pem_file_iter(path).into_iter().flatten();
            store.add_parsable_certificates(certificates.flatten());
        }
    }
    Ok(store)
}

/// Adds the certificates of a file; `false` when there is no such file, as where a
/// container inherited the setting and not the file.
fn add_file(
    store: &mut RootCertStore,
    file: &str,
    warnings: &mut Vec<String>,
) -> Result<bool, Error> {
    let fail =
        |reason: String| Error::Setting { what: format!("`SSL_CERT_FILE` (`{file}`)"), reason };
    let certificates = match CertificateDer::pem_file_iter(file) {
        Ok(certificates) => certificates,
        Err(PemError::Io(e)) if e.kind() == ErrorKind::NotFound => {
            warnings.push(format!(
                "`SSL_CERT_FILE` names `{file}`, which does not exist; Mozilla's certificates are \
                 used"
            ));
            return Ok(false);
        }
        Err(error) => return Err(fail(error.to_string())),
    };
    for certificate in certificates {
        store.add_parsable_certificates(certificate.ok());
    }
    if store.is_empty() {
        return Err(fail("it holds no certificate that can be used".to_owned()));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()
    }

    fn count(pairs: &[(&str, &str)]) -> (usize, Vec<String>) {
        let mut warnings = Vec::new();
        let store = roots(&Env::from_pairs(pairs), &mut warnings).unwrap();
        (store.len(), warnings)
    }

    #[test]
    fn roots_come_from_the_file_that_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (file, empty) = (dir.path().join("ca.pem"), dir.path().join("empty.pem"));
        std::fs::write(&file, certificate()).unwrap();
        std::fs::write(&empty, "").unwrap();
        assert_eq!(count(&[("SSL_CERT_FILE", file.to_str().unwrap())]), (1, Vec::new()));
        let env = Env::from_pairs(&[("SSL_CERT_FILE", empty.to_str().unwrap())]);
        let error = config(&env, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("empty.pem"), "{error}");
    }

    #[test]
    fn a_file_that_is_missing_leaves_the_usual_roots_and_a_warning() {
        let (usual, none) = count(&[]);
        assert!(usual > 50 && none.is_empty());
        let (found, warnings) = count(&[("SSL_CERT_FILE", "/nowhere/ca.pem")]);
        assert_eq!(found, usual);
        assert!(warnings[0].contains("/nowhere/ca.pem"), "{warnings:?}");
    }

    #[test]
    fn the_authorities_of_the_grid_come_besides_the_others() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("0a1b2c3d.0"), certificate()).unwrap();
        std::fs::write(dir.path().join("0a1b2c3d.crl_url"), "http://ca.example/").unwrap();
        let dir = dir.path().to_str().unwrap();
        assert_eq!(count(&[("X509_CERT_DIR", dir)]).0, count(&[]).0 + 1);
        assert_eq!(count(&[("SSL_CERT_DIR", dir)]).0, 1);
    }
}
