//! A zone whose agent is another zone's: callers see no difference.

use super::contract;
use super::zone_fixture::{TransportFixture, agent_id};
use bytes::Bytes;
use interzone_client::{
    ByteStream, Client, Error, ExecuteEvent, InProcess, Transport, TransportError, WaitMode,
    WatchEvent,
};
use interzone_execution::agents::{MAX_HOPS, RemoteAgent, RemoteDialect, RemoteOptions};
use interzone_protocol::acp::{TaskObject, TasksListParams};
use interzone_protocol::vocab::TaskState;
use interzone_protocol::zone::{ErrorReason, ExecuteTaskParams};
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const DIALECTS: [RemoteDialect; 2] = [RemoteDialect::Acp, RemoteDialect::Zone];

fn remote_agent(client: Client, dialect: RemoteDialect) -> Arc<RemoteAgent> {
    let options = RemoteOptions {
        dialect,
        poll_interval: Duration::from_millis(50),
        ..RemoteOptions::new(agent_id("remote"), client)
    };
    Arc::new(RemoteAgent::new(options))
}

fn execute_params(text: &str) -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", text, "capability-1")
}

async fn check_contract_through_another_zone(dialect: RemoteDialect) {
    let there = TransportFixture::with_demo_agent().await;
    let here = TransportFixture::with_agent(remote_agent(there.in_process_client(), dialect)).await;
    contract::check(&here.in_process_client()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_zone_over_acp_meets_contract() {
    check_contract_through_another_zone(RemoteDialect::Acp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_zone_over_execute_task_meets_contract() {
    check_contract_through_another_zone(RemoteDialect::Zone).await;
}

async fn only_task(place: &TransportFixture) -> TaskObject {
    let params = TasksListParams::default();
    let list = place.in_process_client().tasks_list(&params).await.unwrap();
    assert_eq!(list.tasks.len(), 1, "no task is created twice");
    list.tasks.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_is_forwarded_to_remote_zone() {
    for dialect in DIALECTS {
        let there = TransportFixture::with_demo_agent().await;
        let here =
            TransportFixture::with_agent(remote_agent(there.in_process_client(), dialect)).await;
        let client = here.in_process_client();
        let call = client.execute_task(&execute_params("wait 500"));
        let mut run = call.wait_mode(WaitMode::Stream).start().unwrap();
        // Only the other zone sends this status.
        while !matches!(run.next().await.unwrap(), ExecuteEvent::Status(line) if line.starts_with("waiting"))
        {
        }
        let task = only_task(&there).await;
        assert!(run.cancel().await.unwrap());
        let error = run.outcome().await.unwrap_err();
        assert_eq!(error.reason(), ErrorReason::Canceled);
        let mut watch = there.in_process_client().watch_task(&task.task_id, None);
        let mut last = None;
        while let Some(event) = watch.next().await {
            if let WatchEvent::StatusChange(task) = event.unwrap() {
                last = Some(task.status.0);
            }
        }
        assert_eq!(last, Some(TaskState::Canceled), "{dialect:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_and_correlation_id_are_forwarded() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for dialect in DIALECTS {
        let there = TransportFixture::with_demo_agent().await;
        let here =
            TransportFixture::with_agent(remote_agent(there.in_process_client(), dialect)).await;
        let params = ExecuteTaskParams {
            correlation_id: Some("corr-7".to_owned()),
            ..execute_params("echo hi")
        };
        let client = here.in_process_client().with_trace_parent(parent);
        client.execute_task(&params).await.unwrap();
        let metadata = only_task(&there).await.metadata.unwrap();
        let metadata: Value = serde_json::from_str(metadata.as_str()).unwrap();
        let (trace, correlation, hops) = match dialect {
            RemoteDialect::Acp => (
                &metadata["traceparent"],
                &metadata["interzone"]["correlation"],
                &metadata["interzone"]["hops"],
            ),
            RemoteDialect::Zone => (
                &metadata["zone"]["traceparent"],
                &metadata["zone"]["correlation_id"],
                &metadata["zone"]["hops"],
            ),
        };
        let trace = trace.as_str().unwrap();
        assert!(
            trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-"),
            "{trace}"
        );
        assert_ne!(trace, parent, "the call has a span of its own");
        assert_eq!((correlation, hops), (&"corr-7".into(), &1.into()));
    }
}

/// Transport to a zone that is set later, with its token.
#[derive(Clone, Default)]
struct DeferredTransport(Arc<OnceLock<(InProcess, String)>>);

#[async_trait::async_trait]
impl Transport for DeferredTransport {
    async fn send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        let (zone, token) = self.0.get().unwrap();
        let token = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", token);
        zone.send(request).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarding_loop_ends_at_max_hops() {
    for dialect in DIALECTS {
        let deferred = DeferredTransport::default();
        let self_client =
            Client::builder("https://zone.test").transport(Arc::new(deferred.clone()));
        let place =
            TransportFixture::with_agent(remote_agent(self_client.build().unwrap(), dialect)).await;
        let target = (place.transport.clone(), place.token.clone());
        assert!(deferred.0.set(target).is_ok());
        let run = place
            .in_process_client()
            .execute_task(&execute_params("echo hi"));
        let error = tokio::time::timeout(Duration::from_secs(60), run.into_future());
        let error: Error = error.await.unwrap().unwrap_err();
        assert_eq!(
            error.reason(),
            ErrorReason::AgentRejected,
            "{dialect:?}: {error}"
        );
        let params = TasksListParams::default();
        let list = place.in_process_client().tasks_list(&params).await.unwrap();
        assert_eq!(list.tasks.len(), usize::try_from(MAX_HOPS).unwrap() + 1);
    }
}
