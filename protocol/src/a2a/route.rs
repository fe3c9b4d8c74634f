//! Paths and queries of REST, 1.0 and 0.3, below an agent's `/a2a`.

use super::field::{Field, FieldValue, Member, Path, is_named, parse_members};
use super::invalid_field::InvalidField;
use super::method::{A2aMethod, WireFormat};
use super::wire::{Codec, WireObject};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Path segments that a tenant cannot be named after.
const RESERVED: &[&str] = &["v1", "tasks", "extendedAgentCard"];

/// The meaning of an HTTP method and a path below `/a2a`.
///
/// ```
/// use interzone_protocol::a2a::{A2aMethod, RestRoute, RouteError, WireFormat};
///
/// let route = RestRoute::parse("POST", "/tasks/a%2Fb:cancel")?;
/// assert_eq!((route.method, route.format), (A2aMethod::CancelTask, WireFormat::V1));
/// assert_eq!(route.task_id.as_deref(), Some("a/b"));
/// let route = RestRoute::parse("GET", "/support/v1/card")?;
/// assert_eq!((route.tenant.as_deref(), route.format), (Some("support"), WireFormat::RestV03));
/// let wrong = RestRoute::parse("PUT", "/tasks/t");
/// assert_eq!(wrong, Err(RouteError::MethodNotAllowed { allow: "GET" }));
/// # Ok::<(), RouteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestRoute {
    /// The method.
    pub method: A2aMethod,
    /// 1.0, or 0.3 below `/v1`.
    pub format: WireFormat,
    /// The agent named by the first segment.
    pub tenant: Option<String>,
    /// Id of the task.
    pub task_id: Option<String>,
    /// Id of the push configuration.
    pub config_id: Option<String>,
}

/// Reason why a path has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Unknown path.
    #[error("no A2A operation has this path")]
    NotFound,
    /// The path exists, but not for this HTTP method.
    #[error("this path accepts {allow} only")]
    MethodNotAllowed {
        /// Value of the header `Allow`.
        allow: &'static str,
    },
}

/// Resources, and the methods that their HTTP methods stand for.
#[derive(Clone, Copy)]
enum Resource {
    Send,
    Stream,
    Tasks,
    Task,
    Cancel,
    Subscribe,
    Configs,
    Config,
    Card,
}

impl Resource {
    /// Methods by their HTTP method, and the value of `Allow`.
    const fn methods(
        self,
        format: WireFormat,
    ) -> (&'static [(&'static str, A2aMethod)], &'static str) {
        match self {
            Self::Send => (&[("POST", A2aMethod::SendMessage)], "POST"),
            Self::Stream => (&[("POST", A2aMethod::SendStreamingMessage)], "POST"),
            Self::Tasks => match format {
                WireFormat::V1 => (&[("GET", A2aMethod::ListTasks)], "GET"),
                WireFormat::V03 | WireFormat::RestV03 => (&[], ""),
            },
            Self::Task => (&[("GET", A2aMethod::GetTask)], "GET"),
            Self::Cancel => (&[("POST", A2aMethod::CancelTask)], "POST"),
            Self::Subscribe => (
                &[
                    ("POST", A2aMethod::SubscribeToTask),
                    ("GET", A2aMethod::SubscribeToTask),
                ],
                "GET, POST",
            ),
            Self::Configs => (
                &[
                    ("POST", A2aMethod::CreateTaskPushNotificationConfig),
                    ("GET", A2aMethod::ListTaskPushNotificationConfigs),
                ],
                "GET, POST",
            ),
            Self::Config => (
                &[
                    ("GET", A2aMethod::GetTaskPushNotificationConfig),
                    ("DELETE", A2aMethod::DeleteTaskPushNotificationConfig),
                ],
                "GET, DELETE",
            ),
            Self::Card => (&[("GET", A2aMethod::GetExtendedAgentCard)], "GET"),
        }
    }
}

impl RestRoute {
    /// Finds the route of a path below `/a2a`, still percent-encoded, without its query. A trailing slash
    /// is ignored.
    ///
    /// # Errors
    /// The path is unknown, or not for this HTTP method.
    pub fn parse(http_method: &str, path: &str) -> Result<Self, RouteError> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments: Vec<&str> = path.split('/').collect();
        let first = segments.first().copied().unwrap_or_default();
        let has_tenant = !RESERVED.contains(&first) && !first.contains(':');
        let tenant = if has_tenant {
            Some(decode_segment(segments.remove(0)).ok_or(RouteError::NotFound)?)
        } else {
            None
        };
        let format = if segments.first() == Some(&"v1") {
            segments.remove(0);
            WireFormat::RestV03
        } else {
            WireFormat::V1
        };
        // A verb is behind the last colon of the last segment. Ids of configurations have none.
        let depth = segments.len();
        let verb = match segments.last_mut().filter(|_| depth <= 2) {
            Some(last) => last.rsplit_once(':').map(|(id, verb)| {
                *last = id;
                verb
            }),
            None => None,
        };
        let (resource, ids) = match (segments.as_slice(), verb, format) {
            (["message"], Some("send"), _) => (Resource::Send, [None, None]),
            (["message"], Some("stream"), _) => (Resource::Stream, [None, None]),
            (["tasks"], None, _) => (Resource::Tasks, [None, None]),
            (["tasks", id], Some("cancel"), _) => (Resource::Cancel, [Some(*id), None]),
            (["tasks", id], Some("subscribe"), _) => (Resource::Subscribe, [Some(*id), None]),
            (["tasks", id], None, _) => (Resource::Task, [Some(*id), None]),
            (["tasks", id, "pushNotificationConfigs"], None, _) => {
                (Resource::Configs, [Some(*id), None])
            }
            (["tasks", id, "pushNotificationConfigs", config], None, _) => {
                (Resource::Config, [Some(*id), Some(*config)])
            }
            (["extendedAgentCard"], None, WireFormat::V1)
            | (["card"], None, WireFormat::RestV03) => (Resource::Card, [None, None]),
            _ => return Err(RouteError::NotFound),
        };
        let (methods, allow) = resource.methods(format);
        if methods.is_empty() {
            return Err(RouteError::NotFound);
        }
        let method = methods.iter().find(|(name, _)| *name == http_method);
        let (_, method) = method.ok_or(RouteError::MethodNotAllowed { allow })?;
        let [task_id, config_id] = ids.map(|id| match id {
            Some(id) => decode_segment(id).ok_or(RouteError::NotFound).map(Some),
            None => Ok(None),
        });
        Ok(Self {
            method: *method,
            format,
            tenant,
            task_id: task_id?,
            config_id: config_id?,
        })
    }

    /// The request's members: those of the body, those of the query if the method has no params in the
    /// body, and the ids of the path, which win. The tenant of the path is left to the caller, which must
    /// compare it with the one of the members.
    ///
    /// # Errors
    /// The body is not a JSON object.
    pub fn members<'a>(
        &self,
        body: &'a str,
        query: &str,
    ) -> Result<RequestMembers<'a>, InvalidField> {
        let mut members = RequestMembers::from_body(body)?;
        let has_params_in_body = matches!(
            self.method,
            A2aMethod::SendMessage
                | A2aMethod::SendStreamingMessage
                | A2aMethod::CreateTaskPushNotificationConfig
        );
        if !has_params_in_body {
            members.add_query(query);
        }
        let task_member = if self.method.is_push() {
            "taskId"
        } else {
            "id"
        };
        if let Some(id) = &self.task_id {
            members.set(task_member, id.clone());
        }
        if let Some(id) = &self.config_id {
            members.set("id", id.clone());
        }
        Ok(members)
    }
}

/// Splits a path below `/a2a` that has no REST route into its tenant: `/a2a/{tenant}` is JSON-RPC too.
///
/// ```
/// use interzone_protocol::a2a::json_rpc_tenant;
///
/// assert_eq!(json_rpc_tenant("/support/"), Some("support".to_owned()));
/// assert_eq!(json_rpc_tenant("/tasks"), None);
/// ```
pub fn json_rpc_tenant(path: &str) -> Option<String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_tenant = !path.is_empty() && !path.contains(['/', ':']) && !RESERVED.contains(&path);
    is_tenant.then(|| decode_segment(path)).flatten()
}

/// Decodes a path segment; `None` if it is empty or not UTF-8.
fn decode_segment(segment: &str) -> Option<String> {
    let decoded = percent_decode_str(segment).decode_utf8().ok()?;
    (!decoded.is_empty()).then(|| decoded.into_owned())
}

/// Members of a request's params, collected from a body, a query and a path.
///
/// ```
/// use interzone_protocol::a2a::{Codec, ListTasksRequest, RequestMembers, WireFormat};
///
/// let mut members = RequestMembers::from_body("")?;
/// members.add_query("page_size=5&pageSize=7&includeArtifacts=true&status=TASK_STATE_WORKING");
/// let params: ListTasksRequest = members.decode(Codec::server(WireFormat::V1))?;
/// assert_eq!((params.page_size, params.include_artifacts), (Some(7), true));
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestMembers<'a>(Vec<Member<'a>>);

impl<'a> RequestMembers<'a> {
    /// The members of a JSON object; none if the text is empty.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn from_body(body: &'a str) -> Result<Self, InvalidField> {
        if body.trim().is_empty() {
            return Ok(Self::default());
        }
        parse_members(body).map(Self)
    }

    /// Adds the parameters of a query. The last one of a name wins, also over the body. An empty value
    /// counts as absent.
    pub fn add_query(&mut self, query: &str) {
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let name = canonical_name(&name);
            self.set(&name, value.into_owned());
        }
    }

    /// Sets a member, in place of one of that name in any spelling. An empty value removes it.
    pub fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(other, _)| !is_named(other, name));
        if !value.is_empty() {
            let value = FieldValue::Text(Cow::Owned(value));
            self.0.push((Cow::Owned(name.to_owned()), value));
        }
    }

    /// Reads the params.
    ///
    /// # Errors
    /// A member's value is not accepted.
    pub fn decode<T: WireObject>(&self, codec: Codec) -> Result<T, InvalidField> {
        T::read(&Field::new(FieldValue::Object(&self.0), Path::Root, codec))
    }
}

/// The camelCase name of a query parameter in any spelling.
fn canonical_name(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut after_underscore = false;
    for c in name.chars() {
        match c {
            '_' => after_underscore = true,
            c if after_underscore => {
                camel.push(c.to_ascii_uppercase());
                after_underscore = false;
            }
            c => camel.push(c),
        }
    }
    // Go's name of the parameter.
    if camel == "lastUpdatedAfter" {
        return "statusTimestampAfter".to_owned();
    }
    camel
}
