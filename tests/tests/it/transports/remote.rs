//! A zone whose agent is another zone's: whoever asks sees no difference.

use super::contract;
use super::place::{Place, agent_id};
use bytes::Bytes;
use interzone_client::{
    ByteStream, Client, Error, ExecuteEvent, InProcess, Transport, TransportError, Waiting, Watched,
};
use interzone_execution::agents::{MOST_HOPS, RemoteAgent, RemoteDialect, RemoteOptions};
use interzone_protocol::acp::{TaskObject, TasksListParams};
use interzone_protocol::vocab::TaskState;
use interzone_protocol::zone::{ErrorWord, ExecuteTaskParams};
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const DIALECTS: [RemoteDialect; 2] = [RemoteDialect::Acp, RemoteDialect::Zone];

fn remote(client: Client, dialect: RemoteDialect) -> Arc<RemoteAgent> {
    let options = RemoteOptions {
        dialect,
        poll: Duration::from_millis(50),
        ..RemoteOptions::new(agent_id("remote"), client)
    };
    Arc::new(RemoteAgent::new(options))
}

fn asked(text: &str) -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", text, "capability-1")
}

async fn the_contract_holds(dialect: RemoteDialect) {
    let there = Place::demo().await;
    let here = Place::with(remote(there.in_process(), dialect)).await;
    contract::holds(&here.in_process()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_through_another_zone_by_acp() {
    the_contract_holds(RemoteDialect::Acp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_through_another_zone_by_execute_task() {
    the_contract_holds(RemoteDialect::Zone).await;
}

async fn only_task(place: &Place) -> TaskObject {
    let params = TasksListParams::default();
    let list = place.in_process().tasks_list(&params).await.unwrap();
    assert_eq!(list.tasks.len(), 1, "nothing is done twice");
    list.tasks.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_called_off_here_is_called_off_there() {
    for dialect in DIALECTS {
        let there = Place::demo().await;
        let here = Place::with(remote(there.in_process(), dialect)).await;
        let client = here.in_process();
        let call = client.execute_task(&asked("wait 500"));
        let mut run = call.waiting(Waiting::Events).start().unwrap();
        // Only the other zone says this.
        while !matches!(run.next().await.unwrap(), ExecuteEvent::Status(line) if line.starts_with("waiting"))
        {
        }
        let task = only_task(&there).await;
        assert!(run.cancel().await.unwrap());
        let error = run.outcome().await.unwrap_err();
        assert_eq!(error.error_word(), ErrorWord::Canceled);
        let mut watch = there.in_process().watch_task(&task.task_id, None);
        let mut last = None;
        while let Some(event) = watch.next().await {
            if let Watched::StatusChange(task) = event.unwrap() {
                last = Some(task.status.0);
            }
        }
        assert_eq!(last, Some(TaskState::Canceled), "{dialect:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_and_the_name_of_a_request_go_along() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for dialect in DIALECTS {
        let there = Place::demo().await;
        let here = Place::with(remote(there.in_process(), dialect)).await;
        let params = ExecuteTaskParams {
            correlation_id: Some("corr-7".to_owned()),
            ..asked("echo hi")
        };
        let client = here.in_process().with_trace_parent(parent);
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
        assert_ne!(trace, parent, "a place of its own in the trace");
        assert_eq!((correlation, hops), (&"corr-7".into(), &1.into()));
    }
}

/// A way to a zone that is not there yet, and its token.
#[derive(Clone, Default)]
struct Later(Arc<OnceLock<(InProcess, String)>>);

#[async_trait::async_trait]
impl Transport for Later {
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
async fn work_that_goes_in_a_ring_comes_to_an_end() {
    for dialect in DIALECTS {
        let later = Later::default();
        let itself = Client::builder("https://zone.test").transport(Arc::new(later.clone()));
        let place = Place::with(remote(itself.build().unwrap(), dialect)).await;
        let known = (place.transport.clone(), place.token.clone());
        assert!(later.0.set(known).is_ok());
        let run = place.in_process().execute_task(&asked("echo hi"));
        let error = tokio::time::timeout(Duration::from_secs(60), run.into_future());
        let error: Error = error.await.unwrap().unwrap_err();
        assert_eq!(
            error.error_word(),
            ErrorWord::AgentRejected,
            "{dialect:?}: {error}"
        );
        let params = TasksListParams::default();
        let list = place.in_process().tasks_list(&params).await.unwrap();
        assert_eq!(list.tasks.len(), usize::try_from(MOST_HOPS).unwrap() + 1);
    }
}
