//! Browser tests: the real binary, and a real Chromium that a script of `tests/browser/` drives. The scripts contain the
//! steps and checks; this file starts what each of them needs.

use super::console::JsonUpProcess;
use super::peers::required_env;
use super::zone_process::{binary, free_port};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Timeout of a browser script. The script stops a little earlier and says where; the test runner waits longer than both.
/// A browser on a busy machine is slow.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(90);

/// `interzone up` in its own folder, killed on drop, and its startup output.
pub(super) struct BrowserTest {
    pub(super) folder: TempDir,
    pub(super) startup: Value,
    _up: Option<JsonUpProcess>,
}

impl BrowserTest {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listen = format!("127.0.0.1:{}", free_port());
        let (up, startup) = JsonUpProcess::start(folder.path(), &listen).await;
        Self {
            folder,
            startup,
            _up: Some(up),
        }
    }

    /// Uses a zone that was started otherwise.
    pub(super) fn from_startup(startup: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let _up = None;
        Self {
            folder,
            startup,
            _up,
        }
    }

    /// Runs a script of `tests/browser/`, which must succeed.
    pub(super) async fn run_script(&self, script_name: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("browser")
            .join(script_name);
        let script = "scripts/browser.sh";
        let mut node = Command::new("node");
        node.arg(file).arg(self.startup.to_string());
        node.env("INTERZONE_TEST_BINARY", binary());
        for name in ["", "_MODULES", "_PICTURES"] {
            let name = format!("INTERZONE_TEST_BROWSER{name}");
            node.env(&name, required_env(&name, script));
        }
        let node = node
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Node is installed: ./test.sh installs it");
        let waiting = tokio::task::spawn_blocking(move || node.wait_with_output().unwrap());
        let output = tokio::time::timeout(SCRIPT_TIMEOUT, waiting).await;
        let output = output
            .expect("the script ends before this timeout")
            .unwrap();
        assert!(
            output.status.success(),
            "{script_name}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_question_streams_its_answer() {
    BrowserTest::new().await.run_script("first_run.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_can_be_sent_shown_and_downloaded() {
    BrowserTest::new().await.run_script("files.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_task_can_be_stopped() {
    BrowserTest::new().await.run_script("stop.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_rate_limit_and_locale_apply_per_user() {
    BrowserTest::new().await.run_script("users.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn markdown_is_rendered_without_blocking_the_page() {
    BrowserTest::new().await.run_script("markdown.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn playground_fits_a_narrow_screen() {
    BrowserTest::new()
        .await
        .run_script("narrow_screen.mjs")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn playground_has_dark_and_light_theme() {
    BrowserTest::new().await.run_script("themes.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_origin_page_is_rejected() {
    BrowserTest::new()
        .await
        .run_script("cross_origin.mjs")
        .await;
}
