//! Slack's JavaScript SDKs: Socket Mode with acks and reconnects, and the Web API.

use super::WAIT_TIMEOUT;
use crate::journeys::peers::{node_modules, peer_path};
use interzone_playground::{DeliveryMode, DisconnectReason, Playground, PlaygroundOptions, seed};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Node process that runs the SDKs.
struct NodePeer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl NodePeer {
    fn start(playground: &Playground) -> Self {
        let defaults = PlaygroundOptions::default();
        let mut child = Command::new("node")
            .arg(peer_path("slack_socket.mjs"))
            .arg(node_modules())
            .arg(playground.api_url())
            .arg(defaults.bot_token.expose())
            .arg(defaults.app_token.expose())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node is installed by ./test.sh");
        Self {
            input: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(WAIT_TIMEOUT, self.lines.next_line()).await;
        let line = line.expect("output before the timeout").unwrap();
        line.expect("the process runs")
    }

    async fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next_line().await).unwrap()
    }

    /// Waits until it has received this text.
    async fn wait_for_text(&mut self, text: &str) -> Value {
        loop {
            let received = self.next_json().await;
            if received["text"] == text {
                return received;
            }
        }
    }

    async fn stop(mut self) {
        self.input.take();
        let ended = tokio::time::timeout(WAIT_TIMEOUT, self.child.wait()).await;
        assert!(ended.expect("the process ends").unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_socket_client_receives_answers_and_reconnects() {
    let options = PlaygroundOptions {
        mode: DeliveryMode::Socket,
        retry_delays: vec![std::time::Duration::ZERO; 3],
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let mut peer = NodePeer::start(&playground);
    assert_eq!(peer.next_line().await, "connected");
    let ts = playground
        .post(seed::HANA, seed::DM_HANA, "please")
        .unwrap();
    let received = peer.wait_for_text("please").await;
    assert_eq!(
        received,
        json!({"type": "event_callback", "text": "please", "retry": 0})
    );
    // The question, the streamed answer and the file are in the thread when it reports so.
    let answered = loop {
        let line = peer.next_json().await;
        if line.get("answered").is_some() {
            break line;
        }
    };
    assert_eq!(answered, json!({"answered": 3, "locale": "ja-JP"}));
    let thread = playground.thread(seed::DM_HANA, &ts);
    assert_eq!(thread[1].text, "**Hello there**");
    let file = playground.inspect(|workspace| workspace.file(&thread[2].files[0]).cloned());
    assert_eq!(file.unwrap().bytes.unwrap().as_ref(), b"one");

    for reason in [
        DisconnectReason::RefreshRequested,
        DisconnectReason::Dropped,
    ] {
        playground.disconnect(reason);
        loop {
            if peer.next_line().await == "connected" {
                break;
            }
        }
        let text = format!("after {reason:?}");
        playground.post(seed::HANA, seed::DM_HANA, &text).unwrap();
        peer.wait_for_text(&text).await;
    }
    peer.stop().await;
    let gone = playground.wait_for(WAIT_TIMEOUT, |_| {
        (playground.socket_count() == 0).then_some(())
    });
    gone.await.expect("its socket is closed");
    let lost = playground.inspect(|workspace| {
        let mut last = std::collections::BTreeMap::new();
        for delivery in workspace.deliveries() {
            last.insert(delivery.id.clone(), delivery.outcome.clone());
        }
        last.into_values().filter(|outcome| outcome != "ok").count()
    });
    assert_eq!(lost, 0, "everything was acknowledged");
}
