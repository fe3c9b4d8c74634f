//! Development CA: makes real TLS possible on a machine without a certificate. Its keys are in a folder of the user's
//! own, and only clients that are configured to trust it do so.

use super::files::{self, FileMode};
use super::{TlsError, crypto_provider};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{ServerName, UnixTime};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: Duration = Duration::from_secs(86_400);
/// Validity of the CA. Ten years, so that it has to be trusted only once.
const CA_VALIDITY_DAYS: u32 = 3650;
/// Validity of a server certificate. Browsers reject more than 398 days.
const LEAF_VALIDITY_DAYS: u32 = 390;
/// A certificate with less remaining validity is renewed.
const RENEW_BEFORE_DAYS: u32 = 60;
/// Names that every certificate has.
const DEFAULT_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Files of the development CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevCaFiles {
    /// CA certificate, for clients to trust.
    pub ca: PathBuf,
    /// Server certificate.
    pub cert: PathBuf,
    /// Private key of the server.
    pub key: PathBuf,
}

/// The development CA.
#[derive(Clone, Copy, Debug)]
pub struct DevCa;

impl DevCa {
    /// Opens or creates the CA in `folder`, and makes sure that there is a certificate for `localhost`, `127.0.0.1`,
    /// `::1` and `names` that is valid for at least two months.
    ///
    /// The CA and the keys do not change; only the certificate is renewed. Safe for concurrent processes.
    pub fn open_or_create(folder: &Path, names: &[String]) -> Result<DevCaFiles, TlsError> {
        open_or_create(folder, names, SystemTime::now())
    }
}

type AnyError = Box<dyn Error + Send + Sync>;

fn open_or_create(
    folder: &Path,
    names: &[String],
    now: SystemTime,
) -> Result<DevCaFiles, TlsError> {
    let mut all: Vec<String> = DEFAULT_NAMES.iter().map(|&name| name.to_owned()).collect();
    for name in names {
        if ServerName::try_from(name.as_str()).is_err() {
            return Err(TlsError::Name { name: name.clone() });
        }
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    create_folder(folder)?;
    let dev_ca_error = |source: AnyError| TlsError::DevCa {
        folder: folder.into(),
        source,
    };
    let ca = folder.join("ca.pem");
    let cert = folder.join("cert.pem");
    let key = folder.join("key.pem");

    let ca_key = load_or_create_key(&folder.join("ca-key.pem"), dev_ca_error)?;
    let leaf_key = load_or_create_key(&key, dev_ca_error)?;
    let ca_params = ca_params(now).map_err(dev_ca_error)?;
    if !ca.exists() {
        let certificate = ca_params
            .self_signed(&ca_key)
            .map_err(|e| dev_ca_error(e.into()))?;
        files::create(&ca, &certificate.pem(), FileMode::WorldReadable)?;
    }
    let check = || -> Result<(), AnyError> { check_certificate(&ca, &cert, &key, &all, now) };
    if check().is_err() {
        // An issuer needs only the name and key of the CA, so the CA certificate is not parsed.
        let issuer = Issuer::new(ca_params, &ca_key);
        let certificate = leaf_params(&all, now)
            .map_err(dev_ca_error)?
            .signed_by(&leaf_key, &issuer)
            .map_err(|e| dev_ca_error(e.into()))?;
        files::replace(&cert, &certificate.pem(), FileMode::WorldReadable)?;
        check().map_err(dev_ca_error)?;
    }
    Ok(DevCaFiles { ca, cert, key })
}

fn create_folder(folder: &Path) -> Result<(), TlsError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(folder)
        .map_err(|source| TlsError::Unwritable {
            path: folder.into(),
            source,
        })
}

/// Loads the key from the file, creating it if needed. Concurrent creators end up with the same key.
fn load_or_create_key(
    path: &Path,
    dev_ca_error: impl Fn(AnyError) -> TlsError,
) -> Result<KeyPair, TlsError> {
    if !path.exists() {
        let key =
            KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| dev_ca_error(e.into()))?;
        files::create(path, &key.serialize_pem(), FileMode::OwnerOnly)?;
    }
    let pem = String::from_utf8(files::read(path)?).map_err(|e| dev_ca_error(e.into()))?;
    KeyPair::from_pem(&pem).map_err(|e| dev_ca_error(e.into()))
}

fn ca_params(now: SystemTime) -> Result<CertificateParams, AnyError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Interzone development CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, CA_VALIDITY_DAYS);
    Ok(params)
}

fn leaf_params(names: &[String], now: SystemTime) -> Result<CertificateParams, AnyError> {
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Interzone development server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, LEAF_VALIDITY_DAYS);
    Ok(params)
}

/// Sets the validity. Starts a day ago, for slow clocks.
fn set_validity(params: &mut CertificateParams, now: SystemTime, days: u32) {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since.saturating_sub(DAY);
    params.not_after = epoch + since + DAY * days;
}

/// Checks that a client that trusts the CA accepts the certificate for each name, now and for a while, and that the
/// key belongs to it.
fn check_certificate(
    ca: &Path,
    cert: &Path,
    key: &Path,
    names: &[String],
    now: SystemTime,
) -> Result<(), AnyError> {
    let mut roots = RootCertStore::empty();
    for ca in files::parse_certificates(ca, &files::read(ca)?)? {
        roots.add(ca)?;
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), crypto_provider()).build()?;
    let chain = files::parse_certificates(cert, &files::read(cert)?)?;
    let leaf = chain.first().ok_or("no certificate")?;
    let since = now.duration_since(UNIX_EPOCH)?;
    for time in [since, since + DAY * RENEW_BEFORE_DAYS] {
        let time = UnixTime::since_unix_epoch(time);
        for name in names {
            let name = ServerName::try_from(name.as_str())?;
            verifier.verify_server_cert(leaf, &[], &name, &[], time)?;
        }
    }
    let key = files::parse_key(key, &files::read(key)?)?;
    let key = crypto_provider().key_provider.load_private_key(key)?;
    rustls::sign::CertifiedKey::new(chain, key).keys_match()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_NAMES: [&str; 4] = ["ca.pem", "ca-key.pem", "cert.pem", "key.pem"];

    fn read_files(folder: &Path) -> [Vec<u8>; 4] {
        FILE_NAMES.map(|name| fs::read(folder.join(name)).unwrap())
    }

    fn days_from_now(days: u32) -> SystemTime {
        SystemTime::now() + DAY * days
    }

    #[test]
    fn certificate_is_renewed_only_shortly_before_expiry() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("deep/down");
        let open = |days| open_or_create(&folder, &[], days_from_now(days)).unwrap();
        let files = open(0);
        assert_eq!(files.cert, folder.join("cert.pem"));
        let first = read_files(&folder);
        open(LEAF_VALIDITY_DAYS - RENEW_BEFORE_DAYS - 1);
        assert_eq!(read_files(&folder), first);
        open(LEAF_VALIDITY_DAYS - RENEW_BEFORE_DAYS + 1);
        let second = read_files(&folder);
        assert_ne!(second[2], first[2], "the certificate is the same");
        assert_eq!((&second[..2], &second[3]), (&first[..2], &first[3]));
    }

    #[test]
    fn new_name_renews_the_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["zone.test".to_owned(), "10.1.2.3".to_owned()];
        let now = SystemTime::now();
        open_or_create(folder.path(), &[], now).unwrap();
        let first = read_files(folder.path());
        open_or_create(folder.path(), &names, now).unwrap();
        let second = read_files(folder.path());
        assert_ne!(second[2], first[2]);
        open_or_create(folder.path(), &names, now).unwrap();
        assert_eq!(read_files(folder.path()), second);
        let bad = open_or_create(folder.path(), &["no name".to_owned()], now).unwrap_err();
        assert!(matches!(bad, TlsError::Name { .. }), "{bad}");
    }

    #[test]
    fn keys_are_owner_only_and_no_draft_remains() {
        let folder = tempfile::tempdir().unwrap();
        DevCa::open_or_create(folder.path(), &[]).unwrap();
        let mut found: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, ["ca-key.pem", "ca.pem", "cert.pem", "key.pem"]);
        #[cfg(unix)]
        for name in ["ca-key.pem", "key.pem"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(folder.path().join(name))
                .unwrap()
                .permissions();
            assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn concurrent_opens_create_one_ca() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| DevCa::open_or_create(folder.path(), &[]).unwrap());
            }
        });
        let before = read_files(folder.path());
        DevCa::open_or_create(folder.path(), &[]).unwrap();
        assert_eq!(read_files(folder.path()), before);
    }

    #[test]
    fn incomplete_ca_is_completed_and_broken_one_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        DevCa::open_or_create(folder.path(), &[]).unwrap();
        for missing in ["cert.pem", "ca.pem"] {
            fs::remove_file(folder.path().join(missing)).unwrap();
            DevCa::open_or_create(folder.path(), &[]).unwrap();
        }
        // A key that does not belong to the CA certificate.
        fs::remove_file(folder.path().join("ca-key.pem")).unwrap();
        fs::remove_file(folder.path().join("cert.pem")).unwrap();
        let error = DevCa::open_or_create(folder.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("remove the folder"), "{error}");
    }
}
