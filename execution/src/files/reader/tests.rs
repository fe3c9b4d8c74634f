//! Fair scheduling of file owners, and children that misbehave. The children here are scripts; the real one is tested
//! in `tests`.

use super::*;
use crate::files::test_fixtures::PNG;
use std::task::Poll;

fn owner(principal: &str) -> FileOwner {
    FileOwner::new(principal, None)
}

fn person(principal: &str, person: &str) -> FileOwner {
    FileOwner::new(principal, Some(person.to_owned()))
}

/// Returns a slot, which must be free now.
async fn slot_now(slots: &ReaderSlots, owner: &FileOwner) -> slots::ReaderSlot {
    let acquired = std::pin::pin!(slots.acquire(owner));
    match futures_util::poll!(acquired) {
        Poll::Ready(slot) => slot.unwrap(),
        Poll::Pending => panic!("there is no slot for {owner:?}"),
    }
}

#[tokio::test]
async fn principal_with_many_files_leaves_a_process_to_others() {
    let slots = ReaderSlots::new(4);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(slot_now(&slots, &owner("many")).await);
    }
    let many = owner("many");
    let mut fourth = std::pin::pin!(slots.acquire(&many));
    assert!(futures_util::poll!(&mut fourth).is_pending());
    let other = slot_now(&slots, &owner("other")).await;
    held.pop();
    assert!(futures_util::poll!(&mut fourth).is_ready());
    drop(other);
}

#[tokio::test]
async fn principals_take_turns_when_all_processes_are_in_use() {
    let slots = ReaderSlots::new(1);
    let running = slot_now(&slots, &owner("a")).await;
    let names = ["a", "a", "a", "b", "c"].map(owner);
    let order = std::sync::Mutex::new(Vec::new());
    let read = async |owner: &FileOwner| {
        let slot = slots.acquire(owner).await.unwrap();
        order.lock().unwrap().push(owner.principal.clone());
        tokio::task::yield_now().await;
        drop(slot);
    };
    let [a1, a2, a3, b, c] = &names;
    tokio::join!(read(a1), read(a2), read(a3), read(b), read(c), async {
        drop(running);
    });
    let order = order.into_inner().unwrap();
    let position = |name: &str| order.iter().position(|found| found == name).unwrap();
    // At most one file of `a` is ahead of them, not three.
    assert!(position("b") <= 1 && position("c") <= 2, "{order:?}");
}

#[tokio::test]
async fn people_of_one_principal_take_turns() {
    let slots = ReaderSlots::new(4);
    let held = slot_now(&slots, &person("slack", "U1")).await;
    let first = person("slack", "U1");
    let mut more = std::pin::pin!(slots.acquire(&first));
    assert!(futures_util::poll!(&mut more).is_pending());
    let _other = slot_now(&slots, &person("slack", "U2")).await;
    drop(held);
    assert!(futures_util::poll!(&mut more).is_ready());
}

#[tokio::test]
async fn file_is_refused_when_the_queue_of_its_principal_is_full() {
    let slots = Arc::new(ReaderSlots::new(1));
    let held = slot_now(&slots, &owner("many")).await;
    let mut waiting = Vec::new();
    for _ in 0..255 {
        let slots = slots.clone();
        let mut acquired = Box::pin(async move { slots.acquire(&owner("many")).await.map(drop) });
        assert!(futures_util::poll!(&mut acquired).is_pending());
        waiting.push(acquired);
    }
    assert!(slots.acquire(&owner("many")).await.is_none());
    // Canceled waiters free their places.
    drop((held, waiting));
    drop(slot_now(&slots, &owner("many")).await);
}

#[cfg(unix)]
mod children {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Script {
        folder: tempfile::TempDir,
        reader: FileReader,
    }

    /// A reader whose child is this script. It reads the request before anything else, as the real one does.
    fn script(lines: &str) -> Script {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("child");
        let text = format!("#!/bin/sh\ncd {}\n{lines}\n", folder.path().display());
        // Written by another process: a writable descriptor of ours, inherited by a child that another test starts at
        // the same time, would keep the script from being executed.
        let written = std::process::Command::new("/bin/sh")
            .args(["-c", "printf %s \"$1\" > \"$2\"", "sh", &text])
            .arg(&path)
            .status();
        assert!(written.unwrap().success());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let reader = FileReader::new(path, 1);
        Script { folder, reader }
    }

    fn rules() -> InputRules {
        InputRules {
            text_chars: 1_000,
            ..InputRules::default()
        }
    }

    async fn identify(script: &Script, rules: &InputRules) -> Result<FileKind, FileError> {
        let bytes = Bytes::from_static(PNG);
        let claims = ("image/png", "a.png");
        script
            .reader
            .identify(&owner("a"), bytes, claims, rules)
            .await
    }

    async fn text(script: &Script) -> Result<String, FileError> {
        let bytes = Bytes::from_static(b"words");
        script
            .reader
            .text(&owner("a"), FileKind::Text, bytes, &rules())
            .await
    }

    #[tokio::test]
    async fn only_known_forms_of_an_answer_are_accepted() {
        let good = script("cat > request; printf '{\"kind\":\"png\"}'");
        assert_eq!(identify(&good, &rules()).await, Ok(FileKind::Png));
        let request = std::fs::read(good.folder.path().join("request")).unwrap();
        assert!(request.ends_with(PNG), "the file follows the header");
        for answer in [
            "",
            "{}",
            "{\"kind\":\"exe\"}",
            "{\"text\":\"no kind\"}",
            "{\"problem\":\"ignore all rules\"}",
            "{\"kind\":\"png\"}{\"kind\":\"png\"}",
        ] {
            let invalid = script(&format!("cat > /dev/null; printf '%s' '{answer}'"));
            let error = identify(&invalid, &rules()).await.unwrap_err();
            assert_eq!(
                error,
                FileProblem::Damaged.into_file_error(&rules()),
                "{answer}"
            );
        }
        let rejecting = script("cat > /dev/null; printf '{\"problem\":{\"mismatch\":\"png\"}}'");
        let error = identify(&rejecting, &rules()).await.unwrap_err();
        assert_eq!(
            error,
            FileProblem::Mismatch(FileKind::Png).into_file_error(&rules())
        );
    }

    #[tokio::test]
    async fn size_limit_of_the_answered_kind_is_enforced() {
        let lying = script("cat > /dev/null; printf '{\"kind\":\"pdf\"}'");
        let small = InputRules {
            document_bytes: 10,
            ..rules()
        };
        let error = identify(&lying, &small).await.unwrap_err();
        assert_eq!(error.code, ErrorReason::FileTooLarge);
    }

    #[tokio::test]
    async fn text_longer_than_allowed_is_rejected() {
        let endless = script("cat > /dev/null; while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done");
        let error = text(&endless).await.unwrap_err();
        assert_eq!(error.code, ErrorReason::ExtractionFailed);
        let long = "a".repeat(1_100);
        let long = script(&format!(
            "cat > /dev/null; printf '{{\"text\":\"{long}\"}}'"
        ));
        let error = text(&long).await.unwrap_err();
        assert_eq!(error.code, ErrorReason::ExtractionFailed);
        let good = script("cat > /dev/null; printf '{\"text\":\"words\"}'");
        assert_eq!(text(&good).await, Ok("words".to_owned()));
    }

    #[tokio::test]
    async fn exit_status_of_the_child_determines_the_error() {
        for (lines, code) in [
            ("kill -ABRT $$", ErrorReason::FileBomb),
            ("kill -SEGV $$", ErrorReason::FileBomb),
            ("kill -KILL $$", ErrorReason::FileBomb),
            ("kill -XCPU $$", ErrorReason::ExtractionFailed),
            ("exit 101", ErrorReason::ExtractionFailed),
            (
                "printf '{\"kind\":\"png\"}'; exit 1",
                ErrorReason::ExtractionFailed,
            ),
        ] {
            let ended = script(&format!("cat > /dev/null; {lines}"));
            // The same file is rejected with the same code each time.
            for _ in 0..2 {
                let error = identify(&ended, &rules()).await.unwrap_err();
                assert_eq!(error.code, code, "{lines}");
            }
        }
        let missing = FileReader::new("/nonexistent/interzone", 1);
        let bytes = Bytes::from_static(PNG);
        let (owner, rules) = (owner("a"), rules());
        let read = missing.identify(&owner, bytes, ("", ""), &rules).await;
        assert_eq!(read.unwrap_err(), FileError::reader_unavailable());
    }

    // Linux does not execute a program that is open for writing; like a lack of processes, that is a temporary error.
    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn reader_that_cannot_be_started_is_unavailable() {
        let good = script("cat > /dev/null; printf '{\"kind\":\"png\"}'");
        let program = good.folder.path().join("child");
        let writer = std::fs::OpenOptions::new().append(true).open(program);
        let started_at = tokio::time::Instant::now();
        let error = identify(&good, &rules()).await.unwrap_err();
        assert_eq!(error.code.name(), "file_reader_unavailable");
        assert_eq!(
            error.text,
            "file reading is temporarily unavailable: try again in a minute"
        );
        assert!(
            started_at.elapsed() > Duration::from_secs(5),
            "it is retried"
        );
        drop(writer);
        tokio::time::resume();
        assert_eq!(identify(&good, &rules()).await, Ok(FileKind::Png));
    }

    #[tokio::test]
    async fn child_that_does_not_end_is_killed_at_the_wall_time() {
        let sleeper = script("echo $$ > pid; exec sleep 1000");
        let short = InputRules {
            extract_cpu_time: Duration::from_millis(100),
            ..rules()
        };
        let error = identify(&sleeper, &short).await.unwrap_err();
        assert_eq!(error.text, "the file took too long to be read");
        assert_eq!(error.code, ErrorReason::ExtractionFailed);
        let pid = std::fs::read_to_string(sleeper.folder.path().join("pid"));
        // On a busy machine the script may not have written its PID yet.
        if let Ok(pid) = pid
            && let Ok(pid) = pid.trim().parse()
        {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            assert!(
                rustix::process::test_kill_process(pid).is_err(),
                "killed and reaped"
            );
        }
    }

    #[tokio::test]
    async fn child_inherits_no_environment() {
        let environment = script("cat > /dev/null; env > seen; printf '{\"kind\":\"png\"}'");
        assert_eq!(identify(&environment, &rules()).await, Ok(FileKind::Png));
        let variables = std::fs::read_to_string(environment.folder.path().join("seen")).unwrap();
        // Variables that a shell sets by itself.
        let is_shell_variable = |line: &&str| {
            ["PWD=", "OLDPWD=", "SHLVL=", "_="]
                .iter()
                .any(|name| line.starts_with(name))
        };
        let inherited: Vec<&str> = variables
            .lines()
            .filter(|line| !is_shell_variable(line))
            .collect();
        assert!(inherited.is_empty(), "{inherited:?}");
    }
}
