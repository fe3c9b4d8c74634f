//! The files that a configuration names: whether they are there, who can read them, and until when
//! certificates are good.

use super::report::Report;
use crate::config::{Holds, NamedFile, ServerConfig};
use interzone_edge::tls::{ServerTls, TlsFiles};
use interzone_protocol::vocab::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// A certificate that has less left should be renewed by now.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Looks at all of them.
pub(super) fn check(files: &[NamedFile], report: &mut Report) {
    for file in files {
        let path = file.path.display();
        let name = format!("file {}", file.key);
        match File::open(&file.path).and_then(|opened| opened.metadata()) {
            Err(error) => {
                report.fail(
                    name,
                    format!("{path} cannot be read: {error}"),
                    "put it there, or correct the key",
                );
                continue;
            }
            Ok(meta) if !meta.is_file() => {
                report.fail(name, format!("{path} is no file"), "correct the key");
                continue;
            }
            Ok(meta) if meta.len() == 0 => {
                report.fail(
                    name,
                    format!("{path} is empty"),
                    "put into it what belongs there",
                );
                continue;
            }
            Ok(_) => {}
        }
        match file.holds {
            Holds::Words => report.pass(name, path.to_string()),
            Holds::Certificates => certificates(&name, &file.path, SystemTime::now(), report),
            Holds::Secret => match others_can_read(&file.path) {
                false => report.pass(name, format!("{path}, for its owner alone")),
                true => report.warn(
                    name,
                    format!("others on this machine can read {path}"),
                    format!("chmod 600 {path}"),
                ),
            },
        }
    }
}

/// Whether our certificate and key can be served with.
pub(super) fn serving(server: Option<&ServerConfig>, report: &mut Report) {
    let Some(server) = server else { return };
    let loaded = ServerTls::load(&TlsFiles {
        cert: server.cert.clone(),
        key: server.key.clone(),
        client_ca: server.client_ca.clone(),
    });
    match loaded {
        Ok(_) => report.pass("certificate", "it can be served with, and its key fits"),
        Err(error) => report.fail("certificate", error.to_string(), "correct [tls]"),
    }
}

#[cfg(unix)]
fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// Other systems have other ways, which are not looked at.
#[cfg(not(unix))]
fn others_can_read(_: &Path) -> bool {
    false
}

fn certificates(name: &str, path: &Path, now: SystemTime, report: &mut Report) {
    let shown = path.display();
    let mut earliest: Option<Duration> = None;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    for found in CertificateDer::pem_file_iter(path).into_iter().flatten() {
        let parsed = found.ok().and_then(|der| Certificate::from_der(&der).ok());
        let Some(parsed) = parsed else {
            let next = "it must be PEM, with blocks that begin -----BEGIN CERTIFICATE-----";
            report.fail(
                name,
                format!("{shown} has a part that is no certificate"),
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
                format!("{shown} is good only from {} on", day(begins)),
                "set this machine's clock, or get another certificate",
            );
            return;
        }
        earliest = Some(earliest.map_or(ends, |other| other.min(ends)));
    }
    match earliest {
        None => report.fail(
            name,
            format!("{shown} holds no certificate"),
            "it must be PEM, with a block that begins -----BEGIN CERTIFICATE-----",
        ),
        Some(ends) if ends <= now => {
            let found = format!("{shown} was good until {}", day(ends));
            report.fail(
                name,
                found,
                "renew it; a zone that runs takes up the new one",
            );
        }
        Some(ends) if ends <= now + SOON => {
            let found = format!("{shown} is good until {} only", day(ends));
            report.warn(
                name,
                found,
                "renew it; a zone that runs takes up the new one",
            );
        }
        Some(ends) => report.pass(name, format!("{shown}, good until {}", day(ends))),
    }
}

fn day(at: Duration) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let whole = Timestamp::from_millis(millis).to_string();
    whole.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::report::{Report, Verdict};
    use super::{certificates, check};
    use crate::config::{Holds, NamedFile};
    use interzone_edge::tls::DevCa;
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    const DAY: Duration = Duration::from_secs(86_400);

    fn verdict(path: &Path, now: SystemTime) -> Verdict {
        let mut report = Report::default();
        certificates("c", path, now, &mut report);
        assert_eq!(report.checks.len(), 1);
        report.checks[0].verdict
    }

    #[test]
    fn a_certificate_is_judged_by_its_dates() {
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_make(folder.path(), &[]).unwrap();
        let now = SystemTime::now();
        assert_eq!(verdict(&files.cert, now), Verdict::Pass);
        assert_eq!(verdict(&files.cert, now + 380 * DAY), Verdict::Warn);
        assert_eq!(verdict(&files.cert, now + 400 * DAY), Verdict::Fail);
        assert_eq!(verdict(&files.cert, now - 400 * DAY), Verdict::Fail);
        let none = folder.path().join("none.pem");
        fs::write(&none, "hello").unwrap();
        assert_eq!(verdict(&none, now), Verdict::Fail);
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bot.txt");
        let look = || {
            let mut report = Report::default();
            let file = NamedFile {
                key: "slack.bot_token_file".to_owned(),
                path: path.clone(),
                holds: Holds::Secret,
            };
            check(&[file], &mut report);
            report.checks[0].verdict
        };
        assert_eq!(look(), Verdict::Fail, "it is not there");
        fs::write(&path, "").unwrap();
        assert_eq!(look(), Verdict::Fail, "it is empty");
        fs::write(&path, "xoxb-1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(look(), Verdict::Warn);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(look(), Verdict::Pass);
    }
}
