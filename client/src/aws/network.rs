//! The network as AWS's crates see it while they look for credentials: our own HTTPS, so that they bring
//! no second one along. What is not about credentials must not come this way.

use crate::{Https, HttpsOptions, Transport};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use futures_util::TryStreamExt;
use std::time::Duration;

/// An answer with credentials has a few KiB.
const MOST: usize = 1 << 20;
/// How long one answer may take when nobody says how long.
const LONGEST: Duration = Duration::from_secs(10);

/// Whoever answers questions about credentials.
#[derive(Clone, Debug)]
pub(super) struct Network(Https);

impl Network {
    pub(super) fn new() -> Result<Self, crate::Error> {
        Https::new(&HttpsOptions::default()).map(Self)
    }
}

impl HttpClient for Network {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let parts = [settings.connect_timeout(), settings.read_timeout()];
        let said: Duration = parts.into_iter().flatten().sum();
        let within = if said.is_zero() { LONGEST } else { said };
        let https = self.0.clone();
        SharedHttpConnector::new(Line { https, within })
    }
}

#[derive(Debug)]
struct Line {
    https: Https,
    within: Duration,
}

impl HttpConnector for Line {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (https, within) = (self.https.clone(), self.within);
        HttpConnectorFuture::new(async move {
            let answer = tokio::time::timeout(within, exchange(&https, request)).await;
            answer.unwrap_or_else(|late| Err(ConnectorError::timeout(late.into())))
        })
    }
}

async fn exchange(https: &Https, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
    let request = request.try_into_http1x();
    let (parts, body) = request
        .map_err(|error| ConnectorError::user(error.into()))?
        .into_parts();
    let body = body.bytes().map(Bytes::copy_from_slice);
    let body = body.ok_or_else(|| ConnectorError::user("the body is not at hand".into()))?;
    let answer = https.send(http::Request::from_parts(parts, body)).await;
    let answer = answer.map_err(|error| ConnectorError::io(error.into()))?;
    let (parts, mut body) = answer.into_parts();
    let mut whole = Vec::new();
    while let Some(piece) = body.try_next().await.map_err(ConnectorError::io)? {
        if whole.len() + piece.len() > MOST {
            let error = format!("the answer has more than {MOST} bytes");
            return Err(ConnectorError::other(error.into(), None));
        }
        whole.extend_from_slice(&piece);
    }
    let answer = http::Response::from_parts(parts, SdkBody::from(whole));
    HttpResponse::try_from(answer).map_err(|error| ConnectorError::other(error.into(), None))
}

#[cfg(test)]
mod tests {
    use super::Network;
    use aws_config::imds;
    use aws_config::imds::credentials::ImdsCredentialsProvider;
    use aws_config::provider_config::ProviderConfig;
    use aws_credential_types::provider::ProvideCredentials;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    /// What a machine in that cloud answers about itself, by AWS's description of version 2.
    fn answer(request: &str) -> (&'static str, &'static str) {
        match request {
            "PUT /latest/api/token" => ("x-aws-ec2-metadata-token-ttl-seconds: 60\r\n", "token"),
            "GET /latest/meta-data/iam/security-credentials/" => ("", "role"),
            "GET /latest/meta-data/iam/security-credentials/role" => (
                "",
                r#"{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "AKIDEXAMPLE",
                    "SecretAccessKey": "s3cret", "Token": "session", "LastUpdated": "2026-01-01T00:00:00Z",
                    "Expiration": "2126-01-01T00:00:00Z"}"#,
            ),
            _ => ("", ""),
        }
    }

    async fn serve(listener: TcpListener) {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = BufReader::new(connection);
                let mut first = String::new();
                while connection
                    .read_line(&mut first)
                    .await
                    .is_ok_and(|read| read > 0)
                {
                    let mut line = String::new();
                    while connection.read_line(&mut line).await.is_ok() && !line.trim().is_empty() {
                        line.clear();
                    }
                    let asked = first.rsplit_once(' ').map_or("", |(asked, _)| asked);
                    let (header, body) = answer(asked);
                    let text = format!(
                        "HTTP/1.1 200 OK\r\n{header}content-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    connection.write_all(text.as_bytes()).await.unwrap();
                    first.clear();
                }
            });
        }
    }

    #[tokio::test]
    async fn a_machine_s_role_is_found_over_our_own_network() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener));
        let config = ProviderConfig::empty().with_http_client(Network::new().unwrap());
        let machine = imds::Client::builder().configure(&config);
        let machine = machine.endpoint(place).unwrap().build();
        let role = ImdsCredentialsProvider::builder().configure(&config);
        let role = role.imds_client(machine).build();
        let found = role.provide_credentials().await.unwrap();
        assert_eq!(found.access_key_id(), "AKIDEXAMPLE");
        assert_eq!(found.session_token(), Some("session"));
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_and_no_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let config = ProviderConfig::empty().with_http_client(Network::new().unwrap());
        let machine = imds::Client::builder().configure(&config).max_attempts(1);
        let machine = machine.endpoint(place).unwrap().build();
        let error = machine.get("/latest/dynamic").await.unwrap_err();
        assert!(format!("{error:?}").contains("Io"), "{error:?}");
    }
}
