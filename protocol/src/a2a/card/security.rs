//! Security schemes and requirements of agent cards.

use super::read_alike;
use crate::a2a::field::{Field, ObjectReader};
use crate::a2a::invalid_field::InvalidField;
use crate::a2a::method::WireFormat;
use crate::a2a::wire::WireObject;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// An authentication scheme.
///
/// ```
/// use interzone_protocol::a2a::{MutualTlsScheme, SecurityScheme};
///
/// let scheme = SecurityScheme::MutualTls(MutualTlsScheme::default());
/// assert_eq!(serde_json::to_string(&scheme).unwrap(), r#"{"mtlsSecurityScheme":{}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SecurityScheme {
    /// API key.
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey(ApiKeyScheme),
    /// HTTP authentication.
    #[serde(rename = "httpAuthSecurityScheme")]
    HttpAuth(HttpAuthScheme),
    /// OAuth 2.
    #[serde(rename = "oauth2SecurityScheme")]
    OAuth2(Box<OAuthScheme>),
    /// OpenID Connect.
    #[serde(rename = "openIdConnectSecurityScheme")]
    OpenIdConnect(OpenIdConnectScheme),
    /// Client certificates.
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls(MutualTlsScheme),
}

impl SecurityScheme {
    /// Returns false for a flow that 0.3 does not have.
    pub(super) fn is_readable_in_v03(&self) -> bool {
        !matches!(self, Self::OAuth2(scheme) if scheme.flows.device_code.is_some())
    }
}

/// API key in a header, query or cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiKeyScheme {
    /// Description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `query`, `header` or `cookie`.
    pub location: String,
    /// Name of the header, parameter or cookie.
    pub name: String,
}

/// Authentication by the header `Authorization`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuthScheme {
    /// Description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Name of the scheme, for example `Bearer`.
    pub scheme: String,
    /// Format of a bearer token.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bearer_format: String,
}

/// OAuth 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuthScheme {
    /// Description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Flows. More than one makes the card unreadable for many 1.0 clients.
    pub flows: OAuthFlows,
    /// URL of the authorization server's metadata (RFC 8414).
    #[serde(rename = "oauth2MetadataUrl", skip_serializing_if = "String::is_empty")]
    pub metadata_url: String,
}

/// OpenID Connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenIdConnectScheme {
    /// Description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// URL of the discovery document.
    pub open_id_connect_url: String,
}

/// Client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MutualTlsScheme {
    /// Description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Flows of OAuth 2. Implicit and password are deprecated: they are read, so that a signature of another
/// agent's card can be checked, and must not be offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuthFlows {
    /// Authorization code, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_code: Option<OAuthFlow>,
    /// Client credentials, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_credentials: Option<OAuthFlow>,
    /// Device code; 1.0 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_code: Option<OAuthFlow>,
    /// Implicit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implicit: Option<OAuthFlow>,
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<OAuthFlow>,
}

/// A flow of OAuth 2; which URLs it has depends on the flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuthFlow {
    /// URL of the authorization endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// URL of the device authorization endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_authorization_url: Option<String>,
    /// URL of the token endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// URL for refreshing tokens.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refresh_url: String,
    /// Scopes with their descriptions.
    pub scopes: BTreeMap<String, String>,
    /// The client must use PKCE.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pkce_required: bool,
}

/// Names of the URLs that a flow must have.
#[derive(Clone, Copy)]
struct FlowUrls {
    authorization: bool,
    device: bool,
    token: bool,
}

impl OAuthFlow {
    /// Reads a flow. A required URL is present even if it is empty, as in a signature's payload.
    fn read(
        object: &ObjectReader<'_, '_>,
        name: &str,
        urls: FlowUrls,
    ) -> Result<Option<Self>, InvalidField> {
        let Some(field) = object.field(name)? else {
            return Ok(None);
        };
        let flow = field.object()?;
        let url = |name, is_required: bool| -> Result<Option<String>, InvalidField> {
            Ok(if is_required {
                Some(flow.text(name)?)
            } else {
                None
            })
        };
        let scopes = match flow.field("scopes")? {
            Some(scopes) => scopes.map(|scope| scope.text())?,
            None => BTreeMap::new(),
        };
        Ok(Some(Self {
            authorization_url: url("authorizationUrl", urls.authorization)?,
            device_authorization_url: url("deviceAuthorizationUrl", urls.device)?,
            token_url: url("tokenUrl", urls.token)?,
            refresh_url: flow.text("refreshUrl")?,
            scopes,
            pkce_required: flow.boolean("pkceRequired")?.unwrap_or(false),
        }))
    }
}

const TOKEN_ONLY: FlowUrls = FlowUrls {
    authorization: false,
    device: false,
    token: true,
};

read_alike!(OAuthFlows, |object| Self {
    authorization_code: OAuthFlow::read(
        &object,
        "authorizationCode",
        FlowUrls {
            authorization: true,
            ..TOKEN_ONLY
        },
    )?,
    client_credentials: OAuthFlow::read(&object, "clientCredentials", TOKEN_ONLY)?,
    device_code: OAuthFlow::read(
        &object,
        "deviceCode",
        FlowUrls {
            device: true,
            ..TOKEN_ONLY
        },
    )?,
    implicit: OAuthFlow::read(
        &object,
        "implicit",
        FlowUrls {
            authorization: true,
            device: false,
            token: false,
        },
    )?,
    password: OAuthFlow::read(&object, "password", TOKEN_ONLY)?,
});
read_alike!(ApiKeyScheme, |object| Self {
    description: object.text("description")?,
    // 0.3 calls it `in`.
    location: match object.optional_text("location")? {
        Some(location) => location,
        None => object.text("in")?,
    },
    name: object.text("name")?,
});
read_alike!(HttpAuthScheme, |object| Self {
    description: object.text("description")?,
    scheme: object.text("scheme")?,
    bearer_format: object.text("bearerFormat")?,
});
read_alike!(OAuthScheme, |object| Self {
    description: object.text("description")?,
    flows: object.optional("flows")?.unwrap_or_default(),
    metadata_url: object.text("oauth2MetadataUrl")?,
});
read_alike!(OpenIdConnectScheme, |object| Self {
    description: object.text("description")?,
    open_id_connect_url: object.text("openIdConnectUrl")?,
});
read_alike!(MutualTlsScheme, |object| Self {
    description: object.text("description")?,
});

/// Reads the wrapper of 1.0, else the `type` of 0.3; nothing for a scheme that neither has.
fn read_scheme(field: &Field<'_, '_>) -> Result<Option<SecurityScheme>, InvalidField> {
    let object = field.object()?;
    if let Some(scheme) = object.optional("apiKeySecurityScheme")? {
        return Ok(Some(SecurityScheme::ApiKey(scheme)));
    }
    if let Some(scheme) = object.optional("httpAuthSecurityScheme")? {
        return Ok(Some(SecurityScheme::HttpAuth(scheme)));
    }
    if let Some(scheme) = object.optional("oauth2SecurityScheme")? {
        return Ok(Some(SecurityScheme::OAuth2(Box::new(scheme))));
    }
    if let Some(scheme) = object.optional("openIdConnectSecurityScheme")? {
        return Ok(Some(SecurityScheme::OpenIdConnect(scheme)));
    }
    if let Some(scheme) = object.optional("mtlsSecurityScheme")? {
        return Ok(Some(SecurityScheme::MutualTls(scheme)));
    }
    Ok(match object.text("type")?.as_str() {
        "apiKey" => Some(SecurityScheme::ApiKey(ApiKeyScheme::read(field)?)),
        "http" => Some(SecurityScheme::HttpAuth(HttpAuthScheme::read(field)?)),
        "oauth2" => Some(SecurityScheme::OAuth2(Box::new(OAuthScheme::read(field)?))),
        "openIdConnect" => Some(SecurityScheme::OpenIdConnect(OpenIdConnectScheme::read(
            field,
        )?)),
        "mutualTLS" => Some(SecurityScheme::MutualTls(MutualTlsScheme::read(field)?)),
        _ => None,
    })
}

/// Reads `securitySchemes`, without schemes of an unknown type.
pub(super) fn read_schemes(
    object: &ObjectReader<'_, '_>,
) -> Result<BTreeMap<String, SecurityScheme>, InvalidField> {
    let Some(field) = object.field("securitySchemes")? else {
        return Ok(BTreeMap::new());
    };
    let schemes = field.map(read_scheme)?.into_iter();
    Ok(schemes
        .filter_map(|(name, scheme)| Some((name, scheme?)))
        .collect())
}

/// Schemes that must all be satisfied, each with the scopes that it needs.
///
/// Serializes as in 1.0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityRequirement(pub BTreeMap<String, Vec<String>>);

impl Serialize for SecurityRequirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct StringList<'a> {
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            list: &'a [String],
        }
        #[derive(Serialize)]
        struct RequirementView<'a> {
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            schemes: BTreeMap<&'a str, StringList<'a>>,
        }
        let lists = self.0.iter();
        let schemes = lists
            .map(|(name, list)| (name.as_str(), StringList { list }))
            .collect();
        RequirementView { schemes }.serialize(serializer)
    }
}

/// Reads `securityRequirements` of 1.0, else `security` of 0.3.
pub(super) fn read_requirements(
    object: &ObjectReader<'_, '_>,
) -> Result<Vec<SecurityRequirement>, InvalidField> {
    if let Some(field) = object.field("securityRequirements")? {
        return field.list(|requirement| {
            let requirement = requirement.object()?;
            let Some(schemes) = requirement.field("schemes")? else {
                return Ok(SecurityRequirement::default());
            };
            let schemes = schemes.map(|scopes| scopes.object()?.texts("list"))?;
            Ok(SecurityRequirement(schemes))
        });
    }
    let Some(field) = object.field("security")? else {
        return Ok(Vec::new());
    };
    field.list(|requirement| {
        let schemes = requirement.map(|scopes| scopes.list(|field| field.text()))?;
        Ok(SecurityRequirement(schemes))
    })
}
