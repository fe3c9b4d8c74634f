//! Turns go round between those who send files, and a child that misbehaves costs its own file alone. The
//! children here are scripts; the real one is tested in `tests`.

use super::*;
use crate::files::samples::PNG;
use std::task::Poll;

fn owner(principal: &str) -> FileOwner {
    FileOwner::new(principal, None)
}

fn person(principal: &str, person: &str) -> FileOwner {
    FileOwner::new(principal, Some(person.to_owned()))
}

/// A slot that must be free now.
async fn slot_now(slots: &Slots, owner: &FileOwner) -> slots::Slot {
    let acquired = std::pin::pin!(slots.acquire(owner));
    match futures_util::poll!(acquired) {
        Poll::Ready(slot) => slot.unwrap(),
        Poll::Pending => panic!("there is no slot for {owner:?}"),
    }
}

#[tokio::test]
async fn principal_with_many_files_leaves_a_process_to_others() {
    let slots = Slots::new(4);
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
    let slots = Slots::new(1);
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
    let place = |name: &str| order.iter().position(|found| found == name).unwrap();
    // One file of `a` is ahead of them at most, not three.
    assert!(place("b") <= 1 && place("c") <= 2, "{order:?}");
}

#[tokio::test]
async fn people_of_one_principal_take_turns() {
    let slots = Slots::new(4);
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
    let slots = Arc::new(Slots::new(1));
    let held = slot_now(&slots, &owner("many")).await;
    let mut waiting = Vec::new();
    for _ in 0..255 {
        let slots = slots.clone();
        let mut acquired = Box::pin(async move { slots.acquire(&owner("many")).await.map(drop) });
        assert!(futures_util::poll!(&mut acquired).is_pending());
        waiting.push(acquired);
    }
    assert!(slots.acquire(&owner("many")).await.is_none());
    // Those who gave up leave their places.
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
        // Written by another process: a descriptor of ours for writing, copied into a child that another test
        // starts at this moment, would keep the script from being run.
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

    async fn identify(script: &Script, rules: &InputRules) -> Result<Kind, Fault> {
        let bytes = Bytes::from_static(PNG);
        let claims = ("image/png", "a.png");
        script
            .reader
            .identify(&owner("a"), bytes, claims, rules)
            .await
    }

    async fn text(script: &Script) -> Result<String, Fault> {
        let bytes = Bytes::from_static(b"words");
        script
            .reader
            .text(&owner("a"), Kind::Text, bytes, &rules())
            .await
    }

    #[tokio::test]
    async fn answer_of_the_child_is_taken_in_its_known_forms_alone() {
        let good = script("cat > request; printf '{\"kind\":\"png\"}'");
        assert_eq!(identify(&good, &rules()).await, Ok(Kind::Png));
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
            let odd = script(&format!("cat > /dev/null; printf '%s' '{answer}'"));
            let fault = identify(&odd, &rules()).await.unwrap_err();
            assert_eq!(fault, Problem::Damaged.into_fault(&rules()), "{answer}");
        }
        let refused = script("cat > /dev/null; printf '{\"problem\":{\"mismatch\":\"png\"}}'");
        let fault = identify(&refused, &rules()).await.unwrap_err();
        assert_eq!(fault, Problem::Mismatch(Kind::Png).into_fault(&rules()));
    }

    #[tokio::test]
    async fn limit_of_the_kind_holds_whatever_the_child_answers() {
        let lies = script("cat > /dev/null; printf '{\"kind\":\"pdf\"}'");
        let small = InputRules {
            document_bytes: 10,
            ..rules()
        };
        let fault = identify(&lies, &small).await.unwrap_err();
        assert_eq!(fault.word, ErrorWord::FileTooLarge);
    }

    #[tokio::test]
    async fn text_longer_than_allowed_is_refused() {
        let endless = script("cat > /dev/null; while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done");
        let fault = text(&endless).await.unwrap_err();
        assert_eq!(fault.word, ErrorWord::ExtractionFailed);
        let long = "a".repeat(1_100);
        let long = script(&format!(
            "cat > /dev/null; printf '{{\"text\":\"{long}\"}}'"
        ));
        let fault = text(&long).await.unwrap_err();
        assert_eq!(fault.word, ErrorWord::ExtractionFailed);
        let good = script("cat > /dev/null; printf '{\"text\":\"words\"}'");
        assert_eq!(text(&good).await, Ok("words".to_owned()));
    }

    #[tokio::test]
    async fn end_of_the_child_says_why_the_file_is_refused() {
        for (lines, word) in [
            ("kill -ABRT $$", ErrorWord::FileBomb),
            ("kill -SEGV $$", ErrorWord::FileBomb),
            ("kill -KILL $$", ErrorWord::FileBomb),
            ("kill -XCPU $$", ErrorWord::ExtractionFailed),
            ("exit 101", ErrorWord::ExtractionFailed),
            (
                "printf '{\"kind\":\"png\"}'; exit 1",
                ErrorWord::ExtractionFailed,
            ),
        ] {
            let ended = script(&format!("cat > /dev/null; {lines}"));
            // The same file is refused with the same word each time.
            for _ in 0..2 {
                let fault = identify(&ended, &rules()).await.unwrap_err();
                assert_eq!(fault.word, word, "{lines}");
            }
        }
        let missing = FileReader::new("/nonexistent/interzone", 1);
        let bytes = Bytes::from_static(PNG);
        let (owner, rules) = (owner("a"), rules());
        let read = missing.identify(&owner, bytes, ("", ""), &rules).await;
        assert_eq!(read.unwrap_err(), Fault::reader_unavailable());
    }

    // The system refuses to run a program that is open for writing, as it refuses one for want of processes.
    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn file_is_not_blamed_when_its_reader_cannot_be_started() {
        let good = script("cat > /dev/null; printf '{\"kind\":\"png\"}'");
        let program = good.folder.path().join("child");
        let writer = std::fs::OpenOptions::new().append(true).open(program);
        let begun = tokio::time::Instant::now();
        let fault = identify(&good, &rules()).await.unwrap_err();
        assert_eq!(fault.word.name(), "file_reader_unavailable");
        assert_eq!(
            fault.text,
            "file reading is temporarily unavailable: try again in a minute"
        );
        assert!(begun.elapsed() > Duration::from_secs(5), "it is retried");
        drop(writer);
        tokio::time::resume();
        assert_eq!(identify(&good, &rules()).await, Ok(Kind::Png));
    }

    #[tokio::test]
    async fn child_that_does_not_end_is_killed_at_the_wall_time() {
        let sleeper = script("echo $$ > pid; exec sleep 1000");
        let short = InputRules {
            extract_time: Duration::from_millis(100),
            ..rules()
        };
        let fault = identify(&sleeper, &short).await.unwrap_err();
        assert_eq!(fault.text, "the file took too long to be read");
        assert_eq!(fault.word, ErrorWord::ExtractionFailed);
        let pid = std::fs::read_to_string(sleeper.folder.path().join("pid"));
        // On a machine so busy that the script did not get to its first line there is nothing to look for.
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
        assert_eq!(identify(&environment, &rules()).await, Ok(Kind::Png));
        let seen = std::fs::read_to_string(environment.folder.path().join("seen")).unwrap();
        // What a shell sets by itself.
        let own = |line: &&str| {
            ["PWD=", "OLDPWD=", "SHLVL=", "_="]
                .iter()
                .any(|name| line.starts_with(name))
        };
        let more: Vec<&str> = seen.lines().filter(|line| !own(line)).collect();
        assert!(more.is_empty(), "{more:?}");
    }
}
