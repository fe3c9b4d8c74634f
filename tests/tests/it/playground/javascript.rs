//! Slack's JavaScript SDKs: a socket that hears, answers and heals, and the Web API beside it.

use super::PATIENCE;
use crate::journeys::peers::{node_modules, program};
use interzone_playground::{Farewell, Mode, Playground, PlaygroundOptions, seed};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The program with the SDKs in it.
struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(playground: &Playground) -> Self {
        let usual = PlaygroundOptions::default();
        let mut child = Command::new("node")
            .arg(program("slack_socket.mjs"))
            .arg(node_modules())
            .arg(playground.api_url())
            .arg(usual.bot_token.expose())
            .arg(usual.app_token.expose())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node is there: ./test.sh installs it");
        Self {
            input: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("it says something").unwrap();
        line.expect("it goes on")
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Until it hears this text.
    async fn hears(&mut self, text: &str) -> Value {
        loop {
            let heard = self.json().await;
            if heard["text"] == text {
                return heard;
            }
        }
    }

    async fn stop(mut self) {
        self.input.take();
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("it ends").unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_socket_hears_answers_and_heals() {
    let options = PlaygroundOptions {
        mode: Mode::Socket,
        retry_delays: vec![std::time::Duration::ZERO; 3],
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let mut peer = Peer::start(&playground);
    assert_eq!(peer.line().await, "connected");
    let ts = playground
        .post(seed::HANA, seed::DM_HANA, "please")
        .unwrap();
    let heard = peer.hears("please").await;
    assert_eq!(
        heard,
        json!({"type": "event_callback", "text": "please", "retry": 0})
    );
    // The question, the streamed answer and the file are in the thread when it says so.
    let answered = loop {
        let line = peer.json().await;
        if line.get("answered").is_some() {
            break line;
        }
    };
    assert_eq!(answered, json!({"answered": 3, "locale": "ja-JP"}));
    let thread = playground.thread(seed::DM_HANA, &ts);
    assert_eq!(thread[1].text, "**Hello there**");
    let file = playground.look(|workspace| workspace.file(&thread[2].files[0]).cloned());
    assert_eq!(file.unwrap().bytes.unwrap().as_ref(), b"one");

    for why in [Farewell::RefreshRequested, Farewell::Cut] {
        playground.disconnect(why);
        loop {
            if peer.line().await == "connected" {
                break;
            }
        }
        let text = format!("after {why:?}");
        playground.post(seed::HANA, seed::DM_HANA, &text).unwrap();
        peer.hears(&text).await;
    }
    peer.stop().await;
    let gone = playground.wait(PATIENCE, |_| (playground.sockets() == 0).then_some(()));
    gone.await.expect("its socket is closed");
    let lost = playground.look(|workspace| {
        let mut last = std::collections::BTreeMap::new();
        for delivery in workspace.deliveries() {
            last.insert(delivery.id.clone(), delivery.outcome.clone());
        }
        last.into_values().filter(|outcome| outcome != "ok").count()
    });
    assert_eq!(lost, 0, "everything was acknowledged");
}
