//! Test certificate authority: server certificates for zones and client certificates for callers.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key as PEM.
pub(crate) struct CertAndKey {
    pub(crate) cert: String,
    pub(crate) key: String,
}

pub(crate) struct Authority {
    /// CA certificate as PEM, for clients that trust it.
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a server certificate for localhost.
    pub(crate) fn issue_server_cert(&self) -> CertAndKey {
        self.sign(
            &["localhost", "127.0.0.1"],
            "zone",
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// Issues a client certificate.
    pub(crate) fn issue_client_cert(&self, name: &str) -> CertAndKey {
        self.sign(&[], name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], subject: &str, usage: ExtendedKeyUsagePurpose) -> CertAndKey {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        CertAndKey {
            cert: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}
