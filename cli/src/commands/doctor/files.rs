//! Checks of the files that a configuration names: existence, permissions, and validity of certificates.

use super::report::DoctorReport;
use crate::config::{FileContent, FileRef};
use interzone_edge::tls::{ServerTls, TlsFiles};
use interzone_protocol::vocab::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Remaining validity below which a certificate should be renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(14 * 86_400);

/// Checks all files.
pub(super) fn check(files: &[FileRef], report: &mut DoctorReport) {
    for file in files {
        let path = file.path.display();
        let name = format!("file {}", file.key);
        match File::open(&file.path).and_then(|opened| opened.metadata()) {
            Err(error) => {
                report.fail(
                    name,
                    format!("{path} cannot be read: {error}"),
                    "create it, or fix the key",
                );
                continue;
            }
            Ok(meta) if !meta.is_file() => {
                report.fail(name, format!("{path} is not a file"), "fix the key");
                continue;
            }
            Ok(meta) if meta.len() == 0 => {
                report.fail(name, format!("{path} is empty"), "add its content");
                continue;
            }
            Ok(_) => {}
        }
        match file.content {
            FileContent::Text => report.pass(name, path.to_string()),
            FileContent::Certificates => certificates(&name, &file.path, SystemTime::now(), report),
            FileContent::Secret => match others_can_read(&file.path) {
                false => report.pass(name, format!("{path}, readable only by its owner")),
                true => report.warn(
                    name,
                    format!("{path} is readable by other users"),
                    format!("chmod 600 {path}"),
                ),
            },
        }
    }
}

/// Checks that the server's certificate and key can be loaded.
pub(super) fn server_certificate(server: Option<&TlsFiles>, report: &mut DoctorReport) {
    let Some(server) = server else { return };
    match ServerTls::load(server) {
        Ok(_) => report.pass("certificate", "valid, and its key matches"),
        Err(error) => report.fail("certificate", error.to_string(), "fix [tls]"),
    }
}

#[cfg(unix)]
fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// Permissions of other systems are not checked.
#[cfg(not(unix))]
fn others_can_read(_: &Path) -> bool {
    false
}

fn certificates(name: &str, path: &Path, now: SystemTime, report: &mut DoctorReport) {
    let shown = path.display();
    let mut earliest: Option<Duration> = None;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    for found in CertificateDer::pem_file_iter(path).into_iter().flatten() {
        let parsed = found.ok().and_then(|der| Certificate::from_der(&der).ok());
        let Some(parsed) = parsed else {
            let next = "use PEM, with blocks that begin with -----BEGIN CERTIFICATE-----";
            report.fail(
                name,
                format!("{shown} contains an invalid certificate"),
                next,
            );
            return;
        };
        let validity = parsed.tbs_certificate.validity;
        let begins = validity.not_before.to_unix_duration();
        let ends = validity.not_after.to_unix_duration();
        if now < begins {
            report.fail(
                name,
                format!("{shown} is not valid before {}", format_day(begins)),
                "set this machine's clock, or get another certificate",
            );
            return;
        }
        earliest = Some(earliest.map_or(ends, |other| other.min(ends)));
    }
    match earliest {
        None => report.fail(
            name,
            format!("{shown} contains no certificate"),
            "use PEM, with a block that begins with -----BEGIN CERTIFICATE-----",
        ),
        Some(ends) if ends <= now => {
            let found = format!("{shown} expired on {}", format_day(ends));
            report.fail(name, found, "renew it; a running zone reloads it");
        }
        Some(ends) if ends <= now + RENEW_BEFORE => {
            let found = format!("{shown} expires soon, on {}", format_day(ends));
            report.warn(name, found, "renew it; a running zone reloads it");
        }
        Some(ends) => report.pass(name, format!("{shown}, valid until {}", format_day(ends))),
    }
}

fn format_day(at: Duration) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let timestamp = Timestamp::from_millis(millis).to_string();
    timestamp.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::report::{DoctorReport, DoctorVerdict};
    use super::{certificates, check};
    use crate::config::{FileContent, FileRef};
    use interzone_edge::tls::DevCa;
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    const DAY: Duration = Duration::from_secs(86_400);

    fn verdict(path: &Path, now: SystemTime) -> DoctorVerdict {
        let mut report = DoctorReport::default();
        certificates("c", path, now, &mut report);
        assert_eq!(report.checks.len(), 1);
        report.checks[0].verdict
    }

    #[test]
    fn certificate_dates_decide_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_create(folder.path(), &[]).unwrap();
        let now = SystemTime::now();
        assert_eq!(verdict(&files.cert, now), DoctorVerdict::Pass);
        assert_eq!(verdict(&files.cert, now + 380 * DAY), DoctorVerdict::Warn);
        assert_eq!(verdict(&files.cert, now + 400 * DAY), DoctorVerdict::Fail);
        assert_eq!(verdict(&files.cert, now - 400 * DAY), DoctorVerdict::Fail);
        let none = folder.path().join("none.pem");
        fs::write(&none, "hello").unwrap();
        assert_eq!(verdict(&none, now), DoctorVerdict::Fail);
    }

    #[cfg(unix)]
    #[test]
    fn secret_readable_by_others_warns() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bot.txt");
        let look = || {
            let mut report = DoctorReport::default();
            let file = FileRef {
                key: "slack.bot_token_file".to_owned(),
                path: path.clone(),
                content: FileContent::Secret,
            };
            check(&[file], &mut report);
            report.checks[0].verdict
        };
        assert_eq!(look(), DoctorVerdict::Fail, "it is not there");
        fs::write(&path, "").unwrap();
        assert_eq!(look(), DoctorVerdict::Fail, "it is empty");
        fs::write(&path, "xoxb-1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(look(), DoctorVerdict::Warn);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(look(), DoctorVerdict::Pass);
    }
}
