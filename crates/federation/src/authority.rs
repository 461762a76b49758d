//! Certificates: the authority is made once per folder, a server's certificate at each start.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

use super::Error;
use super::folder::{CA_FILE, Folder, KEY_FILE};

/// TLS for a server named `localhost`, under the folder's authority.
pub(super) fn acceptor(folder: &Folder) -> Result<TlsAcceptor, Error> {
    let issuer = authority(folder)?;
    let key = KeyPair::generate().map_err(failed("a server's key"))?;
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).map_err(failed("a certificate"))?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    limit(&mut params);
    let certificate = params.signed_by(&key, &issuer).map_err(failed("a certificate"))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)
        })
        .map_err(failed("TLS settings"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The folder's authority, made when there is none.
fn authority(folder: &Folder) -> Result<Issuer<'static, KeyPair>, Error> {
    let (key, is_new) = match folder.read(KEY_FILE)? {
        Some(pem) => {
            let damaged = |reason| Error::Damaged { path: folder.path(KEY_FILE), reason };
            let pem = String::from_utf8(pem).map_err(|e| damaged(e.to_string()))?;
            (KeyPair::from_pem(&pem).map_err(|e| damaged(e.to_string()))?, false)
        }
        None => {
            let key = KeyPair::generate().map_err(failed("the authority's key"))?;
            folder.write(KEY_FILE, key.serialize_pem().as_bytes(), 0o600)?;
            (key, true)
        }
    };
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Gular development federation");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // A client that trusts the authority trusts it for this machine only, whoever gets its key.
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".to_owned()),
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)),
        ],
        excluded_subtrees: Vec::new(),
    });
    limit(&mut params);
    if is_new || folder.read(CA_FILE)?.is_none() {
        let certificate = params.self_signed(&key).map_err(failed("the authority"))?;
        folder.write(CA_FILE, certificate.pem().as_bytes(), 0o644)?;
    }
    Ok(Issuer::new(params, key))
}

/// Fixed dates: a development machine's clock may be off.
fn limit(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
}

fn failed<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |e| Error::Make { what, reason: e.to_string() }
}
