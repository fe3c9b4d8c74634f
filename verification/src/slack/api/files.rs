//! `files` methods, upload and download. Transfers use Slack hosts only and are limited in size.

use super::response::{lenient, read_body, retry_after, text};
use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{ChannelId, FileId, Ts};
use crate::slack::tokens::Installation;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use url::Url;

/// Timeout of a file transfer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of redirects of a download.
const MAX_REDIRECTS: usize = 3;
const DOWNLOAD: &str = "a download";
const UPLOAD: &str = "an upload";
/// Size limit of the upload response, which is discarded.
const MAX_UPLOAD_RESPONSE_BYTES: usize = 64 << 10;

/// Slack's description of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SlackFile {
    /// The id.
    pub id: FileId,
    /// File name.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// Display title.
    #[serde(default, deserialize_with = "text")]
    pub title: String,
    /// Declared media type.
    #[serde(default, deserialize_with = "text")]
    pub mimetype: String,
    /// Declared size in bytes.
    #[serde(default, deserialize_with = "lenient")]
    pub size: Option<u64>,
    /// URL of the content.
    #[serde(default, deserialize_with = "lenient")]
    pub url_private: Option<String>,
    /// URL of the content as a download.
    #[serde(default, deserialize_with = "lenient")]
    pub url_private_download: Option<String>,
    /// `check_file_info` if this is a stub that [`Slack::files_info`] must complete.
    #[serde(default, deserialize_with = "lenient")]
    pub file_access: Option<String>,
    /// `tombstone`, `hidden_by_limit`, or the storage mode.
    #[serde(default, deserialize_with = "lenient")]
    pub mode: Option<String>,
}

impl SlackFile {
    /// Returns true for a stub, as used for files of other workspaces.
    pub fn is_stub(&self) -> bool {
        self.file_access.as_deref() == Some("check_file_info")
    }

    /// Returns the download URL.
    pub fn download_url(&self) -> Option<&str> {
        let download = self.url_private_download.as_deref();
        download.or(self.url_private.as_deref())
    }
}

/// Response of `files.getUploadURLExternal`.
#[derive(Clone, Debug, Deserialize)]
pub struct UploadTicket {
    /// The upload URL, which grants write access by itself.
    pub upload_url: String,
    /// Id of the new file.
    pub file_id: FileId,
}

/// A downloaded file.
#[derive(Clone, Debug)]
pub struct Download {
    /// Media type without parameters, or empty. `text/html` for a file of another type is Slack's login page: the
    /// token lacks `files:read`.
    pub mimetype: String,
    /// The content.
    pub bytes: Bytes,
}

impl Slack {
    /// Returns the description of a file.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `file_not_found` if the bot does not see it.
    pub async fn files_info(
        &self,
        installation: &Installation,
        file: &FileId,
    ) -> Result<SlackFile, SlackError> {
        #[derive(Deserialize)]
        struct InfoResponse {
            file: SlackFile,
        }
        let args = SlackArgs::new().arg("file", file.as_str());
        let response: InfoResponse = self
            .call(installation, SlackMethod::FilesInfo, &args)
            .await?;
        Ok(response.file)
    }

    /// First of three upload steps: requests an upload URL.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn files_get_upload_url(
        &self,
        installation: &Installation,
        name: &str,
        length: usize,
    ) -> Result<UploadTicket, SlackError> {
        let args = SlackArgs::new()
            .arg("filename", name)
            .arg("length", length.to_string());
        self.call(installation, SlackMethod::FilesGetUploadUrl, &args)
            .await
    }

    /// Second step: sends the bytes. The URL grants access by itself, so no token is sent.
    ///
    /// # Errors
    /// The URL is not on a Slack host, or the transfer failed.
    pub async fn files_upload(&self, url: &str, bytes: Bytes) -> Result<(), SlackError> {
        let url = self.require_slack_url(UPLOAD, url)?;
        let sent = self
            .inner
            .http
            .post(url)
            .timeout(TRANSFER_TIMEOUT)
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(bytes)
            .send();
        let response = sent
            .await
            .map_err(|error| SlackError::from_reqwest(UPLOAD, error))?;
        let status = response.status();
        if status.as_u16() == 429 {
            let after = retry_after(response.headers());
            let method = SlackMethod::FilesGetUploadUrl;
            return Err(SlackError::RateLimited { method, after });
        }
        if !status.is_success() {
            let (operation, status) = (UPLOAD, status.as_u16());
            return Err(SlackError::HttpStatus { operation, status });
        }
        read_body(UPLOAD, response, MAX_UPLOAD_RESPONSE_BYTES)
            .await
            .map(drop)
    }

    /// Third step: shares the file in a thread.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn files_complete_upload(
        &self,
        installation: &Installation,
        file: &FileId,
        title: &str,
        channel: &ChannelId,
        thread: Option<&Ts>,
    ) -> Result<(), SlackError> {
        let files = json!([{"id": file.as_str(), "title": title}]);
        let args = SlackArgs::new()
            .json_arg("files", Some(&files))
            .arg("channel_id", channel.as_str())
            .optional_arg("thread_ts", thread.map(Ts::as_str));
        self.call_raw(installation, SlackMethod::FilesCompleteUpload, &args)
            .await
            .map(drop)
    }

    /// Downloads a file of at most `max_bytes` bytes.
    ///
    /// # Errors
    /// The URL is not on a Slack host, the file is too large, or the transfer failed.
    pub async fn files_download(
        &self,
        installation: &Installation,
        url: &str,
        max_bytes: usize,
    ) -> Result<Download, SlackError> {
        let download = self.download(installation, url, max_bytes);
        let fetched = tokio::time::timeout(TRANSFER_TIMEOUT, download).await;
        fetched.unwrap_or(Err(SlackError::TimedOut {
            operation: DOWNLOAD,
        }))
    }

    async fn download(
        &self,
        installation: &Installation,
        url: &str,
        max_bytes: usize,
    ) -> Result<Download, SlackError> {
        let first = self.require_slack_url(DOWNLOAD, url)?;
        let mut url = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.inner.http.get(url.clone()).timeout(TRANSFER_TIMEOUT);
            // The token is sent to the original origin only, not to redirect targets.
            if url.origin() == first.origin() {
                request = request.header(AUTHORIZATION, installation.token.bearer());
            }
            let response = request.send().await;
            let response = response.map_err(|error| SlackError::from_reqwest(DOWNLOAD, error))?;
            let status = response.status();
            let header = |name| response.headers().get(name)?.to_str().ok();
            if status.is_redirection() {
                let next = header(LOCATION).and_then(|next| url.join(next).ok());
                let next = next.ok_or(SlackError::Unreadable {
                    operation: DOWNLOAD,
                })?;
                url = self.require_slack_url(DOWNLOAD, next.as_str())?;
                continue;
            }
            if status.as_u16() == 429 {
                let after = retry_after(response.headers());
                let method = SlackMethod::FilesInfo;
                return Err(SlackError::RateLimited { method, after });
            }
            if status.as_u16() != 200 {
                let (operation, status) = (DOWNLOAD, status.as_u16());
                return Err(SlackError::HttpStatus { operation, status });
            }
            let mimetype = header(CONTENT_TYPE).unwrap_or_default();
            let mimetype = mimetype.split(';').next().unwrap_or_default();
            let mimetype = mimetype.trim().to_ascii_lowercase();
            let bytes = read_body(DOWNLOAD, response, max_bytes).await?;
            return Ok(Download { mimetype, bytes });
        }
        Err(SlackError::Unreadable {
            operation: DOWNLOAD,
        })
    }

    /// Parses a URL and requires it to be on a Slack host.
    pub(super) fn require_slack_url(
        &self,
        operation: &'static str,
        url: &str,
    ) -> Result<Url, SlackError> {
        let url = Url::parse(url).ok();
        url.filter(|url| self.inner.hosts.allows(url))
            .ok_or(SlackError::ForbiddenHost { operation })
    }
}
