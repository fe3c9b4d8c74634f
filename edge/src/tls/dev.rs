//! A CA for development: it makes real TLS possible on a machine that has no certificate. Its keys
//! are in a folder of the user's own, and nobody trusts it but those who are told to.

use super::files::{self, Eyes};
use super::{TlsError, provider};
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
/// Ten years: whoever trusts the CA should not have to do so again.
const CA_DAYS: u32 = 3650;
/// Browsers refuse certificates that are valid for longer than 398 days.
const LEAF_DAYS: u32 = 390;
/// A certificate that has less left is made again.
const MARGIN_DAYS: u32 = 60;
/// The names that every certificate has.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The files of the development CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevFiles {
    /// The CA's certificate, for those who are to trust it.
    pub ca: PathBuf,
    /// The server's certificate.
    pub cert: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

/// The development CA.
#[derive(Clone, Copy, Debug)]
pub struct DevCa;

impl DevCa {
    /// Opens the CA in `folder`, or makes one, and sees to it that there is a certificate for
    /// `localhost`, `127.0.0.1`, `::1` and `names` that is good for two months at least.
    ///
    /// The CA and the keys stay what they are; only the certificate is made again. Many processes may
    /// do this at the same time.
    pub fn open_or_make(folder: &Path, names: &[String]) -> Result<DevFiles, TlsError> {
        open_or_make(folder, names, SystemTime::now())
    }
}

type AnyError = Box<dyn Error + Send + Sync>;

fn open_or_make(folder: &Path, names: &[String], now: SystemTime) -> Result<DevFiles, TlsError> {
    let mut all: Vec<String> = ALWAYS.iter().map(|&name| name.to_owned()).collect();
    for name in names {
        if ServerName::try_from(name.as_str()).is_err() {
            return Err(TlsError::Name { name: name.clone() });
        }
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    make_folder(folder)?;
    let broken = |source: AnyError| TlsError::DevCa {
        folder: folder.into(),
        source,
    };
    let ca = folder.join("ca.pem");
    let cert = folder.join("cert.pem");
    let key = folder.join("key.pem");

    let ca_key = key_in(&folder.join("ca-key.pem"), broken)?;
    let leaf_key = key_in(&key, broken)?;
    let ca_params = ca_params(now).map_err(broken)?;
    if !ca.exists() {
        let made = ca_params
            .self_signed(&ca_key)
            .map_err(|e| broken(e.into()))?;
        files::create(&ca, &made.pem(), Eyes::All)?;
    }
    let good = || -> Result<(), AnyError> { is_good(&ca, &cert, &key, &all, now) };
    if good().is_err() {
        // The names and keys of the CA are all that an issuer needs, so its certificate is not parsed.
        let issuer = Issuer::new(ca_params, &ca_key);
        let made = leaf_params(&all, now)
            .map_err(broken)?
            .signed_by(&leaf_key, &issuer)
            .map_err(|e| broken(e.into()))?;
        files::replace(&cert, &made.pem(), Eyes::All)?;
        good().map_err(broken)?;
    }
    Ok(DevFiles { ca, cert, key })
}

fn make_folder(folder: &Path) -> Result<(), TlsError> {
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

/// The key in the file, which is made if it is not there. Two that make it end up with the same one.
fn key_in(path: &Path, broken: impl Fn(AnyError) -> TlsError) -> Result<KeyPair, TlsError> {
    if !path.exists() {
        let made = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| broken(e.into()))?;
        files::create(path, &made.serialize_pem(), Eyes::Owner)?;
    }
    let pem = String::from_utf8(files::read(path)?).map_err(|e| broken(e.into()))?;
    KeyPair::from_pem(&pem).map_err(|e| broken(e.into()))
}

fn ca_params(now: SystemTime) -> Result<CertificateParams, AnyError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Interzone development CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for(&mut params, now, CA_DAYS);
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
    valid_for(&mut params, now, LEAF_DAYS);
    Ok(params)
}

/// From a day ago, for clocks that are slow.
fn valid_for(params: &mut CertificateParams, now: SystemTime, days: u32) {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since.saturating_sub(DAY);
    params.not_after = epoch + since + DAY * days;
}

/// Whether a client that trusts the CA would take the certificate under each name, now and for a
/// while, and the key belongs to it.
fn is_good(
    ca: &Path,
    cert: &Path,
    key: &Path,
    names: &[String],
    now: SystemTime,
) -> Result<(), AnyError> {
    let mut roots = RootCertStore::empty();
    for ca in files::certificates(ca, &files::read(ca)?)? {
        roots.add(ca)?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider()).build()?;
    let chain = files::certificates(cert, &files::read(cert)?)?;
    let leaf = chain.first().ok_or("no certificate")?;
    let since = now.duration_since(UNIX_EPOCH)?;
    for moment in [since, since + DAY * MARGIN_DAYS] {
        let moment = UnixTime::since_unix_epoch(moment);
        for name in names {
            let name = ServerName::try_from(name.as_str())?;
            verifier.verify_server_cert(leaf, &[], &name, &[], moment)?;
        }
    }
    let key = files::key(key, &files::read(key)?)?;
    let key = provider().key_provider.load_private_key(key)?;
    rustls::sign::CertifiedKey::new(chain, key).keys_match()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 4] = ["ca.pem", "ca-key.pem", "cert.pem", "key.pem"];

    fn texts(folder: &Path) -> [Vec<u8>; 4] {
        ALL.map(|name| fs::read(folder.join(name)).unwrap())
    }

    fn days_from_now(days: u32) -> SystemTime {
        SystemTime::now() + DAY * days
    }

    #[test]
    fn what_is_good_is_kept_and_what_ends_soon_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("deep/down");
        let make = |days| open_or_make(&folder, &[], days_from_now(days)).unwrap();
        let files = make(0);
        assert_eq!(files.cert, folder.join("cert.pem"));
        let first = texts(&folder);
        make(LEAF_DAYS - MARGIN_DAYS - 1);
        assert_eq!(texts(&folder), first);
        make(LEAF_DAYS - MARGIN_DAYS + 1);
        let second = texts(&folder);
        assert_ne!(second[2], first[2], "the certificate is the same");
        assert_eq!((&second[..2], &second[3]), (&first[..2], &first[3]));
    }

    #[test]
    fn a_new_name_makes_a_new_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["zone.test".to_owned(), "10.1.2.3".to_owned()];
        let now = SystemTime::now();
        open_or_make(folder.path(), &[], now).unwrap();
        let first = texts(folder.path());
        open_or_make(folder.path(), &names, now).unwrap();
        let second = texts(folder.path());
        assert_ne!(second[2], first[2]);
        open_or_make(folder.path(), &names, now).unwrap();
        assert_eq!(texts(folder.path()), second);
        let bad = open_or_make(folder.path(), &["no name".to_owned()], now).unwrap_err();
        assert!(matches!(bad, TlsError::Name { .. }), "{bad}");
    }

    #[test]
    fn keys_are_for_their_owner_alone_and_no_draft_stays() {
        let folder = tempfile::tempdir().unwrap();
        DevCa::open_or_make(folder.path(), &[]).unwrap();
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
    fn many_at_once_agree() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| DevCa::open_or_make(folder.path(), &[]).unwrap());
            }
        });
        let before = texts(folder.path());
        DevCa::open_or_make(folder.path(), &[]).unwrap();
        assert_eq!(texts(folder.path()), before);
    }

    #[test]
    fn a_half_made_ca_is_completed_and_a_spoilt_one_named() {
        let folder = tempfile::tempdir().unwrap();
        DevCa::open_or_make(folder.path(), &[]).unwrap();
        for gone in ["cert.pem", "ca.pem"] {
            fs::remove_file(folder.path().join(gone)).unwrap();
            DevCa::open_or_make(folder.path(), &[]).unwrap();
        }
        // A key that the CA's certificate does not know.
        fs::remove_file(folder.path().join("ca-key.pem")).unwrap();
        fs::remove_file(folder.path().join("cert.pem")).unwrap();
        let error = DevCa::open_or_make(folder.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("remove the folder"), "{error}");
    }
}
