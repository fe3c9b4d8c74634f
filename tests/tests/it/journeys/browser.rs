//! People in front of a browser: the real binary, and a real Chromium that a program of `tests/browser/`
//! drives. What is looked at and pressed stands there; here is only what each of them needs to begin.

use super::console::Up;
use super::peers::told;
use super::zone::{binary, free_port};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a journey may take. It gives up by itself a little earlier, and says where; the test runner waits
/// longer than both. A browser on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// `interzone up` in a folder of its own, until it is dropped, and what it said of itself.
pub(super) struct Started {
    pub(super) folder: TempDir,
    pub(super) said: Value,
    _up: Option<Up>,
}

impl Started {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listen = format!("127.0.0.1:{}", free_port());
        let (up, said) = Up::start(folder.path(), &listen).await;
        Self {
            folder,
            said,
            _up: Some(up),
        }
    }

    /// Something that was started in another way.
    pub(super) fn as_told(said: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let _up = None;
        Self { folder, said, _up }
    }

    /// Walks a journey of `tests/browser/` to its end, which must be a good one.
    pub(super) async fn walk(&self, journey: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("browser")
            .join(journey);
        let script = "scripts/browser.sh";
        let mut node = Command::new("node");
        node.arg(file).arg(self.said.to_string());
        node.env("INTERZONE_TEST_BINARY", binary());
        for name in ["", "_MODULES", "_PICTURES"] {
            let name = format!("INTERZONE_TEST_BROWSER{name}");
            node.env(&name, told(&name, script));
        }
        let node = node
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Node is there: ./test.sh installs it");
        let waiting = tokio::task::spawn_blocking(move || node.wait_with_output().unwrap());
        let output = tokio::time::timeout(PATIENCE, waiting).await;
        let output = output.expect("it ends by itself before that").unwrap();
        assert!(
            output.status.success(),
            "{journey}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_asks_and_sees_the_answer_grow() {
    Started::new().await.walk("first_run.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_made_sent_shown_and_downloaded() {
    Started::new().await.walk("files.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_stopped() {
    Started::new().await.walk("stop.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_refused_held_back_and_answered_in_their_language() {
    Started::new().await.walk("people.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_look_as_meant_and_none_hold_up_the_page() {
    Started::new().await.walk("marks.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_screen_has_room_for_all_of_it() {
    Started::new().await.walk("narrow.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_screen_is_dark_or_light_as_one_likes() {
    Started::new().await.walk("wide.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_somebody_else_gets_nowhere() {
    Started::new().await.walk("intruder.mjs").await;
}
