//! Push notification configurations.

use super::field::{Field, ObjectReader};
use super::invalid_field::{Expectation, InvalidField};
use super::method::WireFormat;
use super::wire::{Encoded, WireObject, non_empty};
use serde::{Serialize, Serializer};
use std::fmt;

/// Form of a configuration's name in the 0.3 proto.
const CONFIG_NAME: &str = "tasks/{task}/pushNotificationConfigs/{config}";
/// Form of the name of a configuration's task in the 0.3 proto.
const TASK_NAME: &str = "tasks/{task}";

/// Text that must not reach a log: a token or credentials.
///
/// ```
/// use interzone_protocol::a2a::SecretText;
///
/// let token = SecretText::from("abc".to_owned());
/// assert_eq!(token.expose(), "abc");
/// assert_eq!(format!("{token:?}"), "<secret>");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// The text, to be sent to its owner or to the webhook.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// Authentication of push notifications at the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationInfo {
    /// HTTP authentication scheme, for example `Bearer`.
    pub scheme: String,
    /// Further schemes that a 0.3 client named. Unused, kept to read back.
    pub other_schemes: Vec<String>,
    /// Credentials of the scheme.
    pub credentials: Option<SecretText>,
}

#[derive(Serialize)]
struct AuthenticationView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schemes: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<&'a SecretText>,
}

impl WireObject for AuthenticationInfo {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let (scheme, other_schemes) = match field.format() {
            WireFormat::V1 => (object.required_text("scheme")?, Vec::new()),
            WireFormat::V03 | WireFormat::RestV03 => {
                let mut schemes = object.texts("schemes")?.into_iter();
                let error = || object.member_error("schemes", Expectation::NonEmptyArray);
                (schemes.next().ok_or_else(error)?, schemes.collect())
            }
        };
        Ok(Self {
            scheme,
            other_schemes,
            credentials: object.optional_text("credentials")?.map(SecretText),
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let is_v1 = format == WireFormat::V1;
        let others = self.other_schemes.iter().map(String::as_str);
        let view = AuthenticationView {
            scheme: is_v1.then_some(self.scheme.as_str()),
            schemes: (!is_v1).then(|| std::iter::once(&*self.scheme).chain(others).collect()),
            credentials: self.credentials.as_ref(),
        };
        view.serialize(serializer)
    }
}

/// A webhook for the events of a task.
///
/// ```
/// use interzone_protocol::a2a::{Codec, TaskPushNotificationConfig, WireFormat, WireObject};
///
/// let v1 = r#"{"taskId":"t","id":"c","url":"https://a.example"}"#;
/// let config = TaskPushNotificationConfig::decode(v1, Codec::server(WireFormat::V1))?;
/// assert_eq!(
///     serde_json::to_string(&config.encode(WireFormat::V03)).unwrap(),
///     r#"{"taskId":"t","pushNotificationConfig":{"id":"c","url":"https://a.example"}}"#
/// );
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPushNotificationConfig {
    /// Id of the task; empty while the task does not exist, in a request to send a message.
    pub task_id: String,
    /// Id of the configuration, unique in the task; the server chooses one if it is absent.
    pub id: Option<String>,
    /// URL of the webhook.
    pub url: String,
    /// Token that the webhook compares.
    pub token: Option<SecretText>,
    /// Authentication at the webhook.
    pub authentication: Option<AuthenticationInfo>,
}

/// The configuration without its task: an object of its own in 0.3.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a SecretText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Encoded<'a, AuthenticationInfo>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskConfigV03<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    push_notification_config: ConfigView<'a>,
}

impl TaskPushNotificationConfig {
    fn read_members(
        object: &ObjectReader<'_, '_>,
        task_id: String,
        id: Option<String>,
    ) -> Result<Self, InvalidField> {
        Ok(Self {
            task_id,
            id,
            url: object.required_text("url")?,
            token: object.optional_text("token")?.map(SecretText),
            authentication: object.optional("authentication")?,
        })
    }

    /// Reads the configuration in a request to send a message, which has no task yet.
    pub(super) fn read_without_task(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let id = object.optional_text("id")?;
        Self::read_members(&object, String::new(), id)
    }

    /// Reads `{"name", "pushNotificationConfig"}`, `{"parent", "configId", "config"}` or a flat object. Ids
    /// of the path are the members `taskId` and `id`, and take precedence.
    fn read_rest_v03(object: &ObjectReader<'_, '_>) -> Result<Self, InvalidField> {
        let mut task_id = object.optional_text("taskId")?;
        let mut id = object.optional_text("id")?;
        let Some(field) = object.field("config")? else {
            return Self::read_named(object, task_id, id);
        };
        if id.is_none() {
            id = object.optional_text("configId")?;
        }
        if let (None, Some(parent)) = (&task_id, object.optional_text("parent")?) {
            let error = || object.member_error("parent", Expectation::ResourceName(TASK_NAME));
            task_id = Some(parent.strip_prefix("tasks/").ok_or_else(error)?.to_owned());
        }
        Self::read_named(&field.object()?, task_id, id)
    }

    /// Reads `{"name", "pushNotificationConfig"}` or a flat object.
    fn read_named(
        object: &ObjectReader<'_, '_>,
        task_id: Option<String>,
        mut id: Option<String>,
    ) -> Result<Self, InvalidField> {
        let name = object.text("name")?;
        let (named_task, named_config) = parse_config_name(&name).unzip();
        let task_id = task_id.or_else(|| named_task.map(str::to_owned));
        let task_id = task_id
            .ok_or_else(|| object.member_error("name", Expectation::ResourceName(CONFIG_NAME)))?;
        id = id.or_else(|| named_config.map(str::to_owned));
        let Some(field) = object.field("pushNotificationConfig")? else {
            return Self::read_members(object, task_id, id);
        };
        let config = field.object()?;
        if id.is_none() {
            id = config.optional_text("id")?;
        }
        Self::read_members(&config, task_id, id)
    }

    /// The configuration without its task, as 0.3 sends it, or flat as in 1.0.
    fn view(&self, format: WireFormat) -> ConfigView<'_> {
        ConfigView {
            task_id: (format == WireFormat::V1)
                .then(|| non_empty(&self.task_id))
                .flatten(),
            id: self.id.as_deref(),
            url: &self.url,
            token: self.token.as_ref(),
            authentication: self.authentication.as_ref().map(|info| info.encode(format)),
        }
    }
}

/// Splits `tasks/{task}/pushNotificationConfigs/{config}`.
fn parse_config_name(name: &str) -> Option<(&str, &str)> {
    let (task, config) = name
        .strip_prefix("tasks/")?
        .split_once("/pushNotificationConfigs/")?;
    let is_valid = |id: &str| !id.is_empty() && !id.contains('/');
    (is_valid(task) && is_valid(config)).then_some((task, config))
}

impl WireObject for TaskPushNotificationConfig {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        match field.format() {
            WireFormat::V1 => {
                let task_id = object.required_text("taskId")?;
                let id = object.optional_text("id")?;
                Self::read_members(&object, task_id, id)
            }
            WireFormat::V03 => {
                let task_id = object.required_text("taskId")?;
                let config = object.required_field("pushNotificationConfig")?;
                let config = config.object()?;
                let id = config.optional_text("id")?;
                Self::read_members(&config, task_id, id)
            }
            WireFormat::RestV03 => Self::read_rest_v03(&object),
        }
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.view(format);
        match format {
            WireFormat::V1 => view.serialize(serializer),
            WireFormat::V03 => TaskConfigV03 {
                task_id: Some(&self.task_id),
                name: None,
                push_notification_config: view,
            }
            .serialize(serializer),
            WireFormat::RestV03 => {
                let id = self.id.as_deref().unwrap_or_default();
                TaskConfigV03 {
                    task_id: None,
                    name: Some(format!(
                        "tasks/{}/pushNotificationConfigs/{id}",
                        self.task_id
                    )),
                    push_notification_config: view,
                }
                .serialize(serializer)
            }
        }
    }
}

/// The configuration in a request to send a message: flat in every format, without a task.
pub(super) struct ConfigWithoutTask<'a>(
    pub(super) &'a TaskPushNotificationConfig,
    pub(super) WireFormat,
);

impl Serialize for ConfigWithoutTask<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut view = self.0.view(self.1);
        view.task_id = None;
        view.serialize(serializer)
    }
}
