//! Files, both ways: only to and from addresses that are Slack's, and never more bytes than were asked
//! for. What is in them is not looked at here.

use super::answer::{lenient, retry_after, text, whole};
use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{ChannelId, FileId, Ts};
use crate::slack::tokens::Installation;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use url::Url;

/// How long a file may take on its way, all of it.
const TRAVEL: Duration = Duration::from_secs(60);
/// How often a download may be sent on.
const HOPS: usize = 3;
const DOWNLOAD: &str = "a download";
const UPLOAD: &str = "an upload";
/// What Slack says when an upload is there; nobody reads it.
const RECEIPT: usize = 64 << 10;

/// A file, as Slack describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct File {
    /// Which.
    pub id: FileId,
    /// What it is called.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// What people see as its name.
    #[serde(default, deserialize_with = "text")]
    pub title: String,
    /// Of what type it says to be.
    #[serde(default, deserialize_with = "text")]
    pub mimetype: String,
    /// How large it says to be.
    #[serde(default, deserialize_with = "lenient")]
    pub size: Option<u64>,
    /// Where its bytes are.
    #[serde(default, deserialize_with = "lenient")]
    pub url_private: Option<String>,
    /// Where its bytes are, as a file.
    #[serde(default, deserialize_with = "lenient")]
    pub url_private_download: Option<String>,
    /// `check_file_info` if this is a stub that [`Slack::files_info`] must complete.
    #[serde(default, deserialize_with = "lenient")]
    pub file_access: Option<String>,
    /// `tombstone`, `hidden_by_limit`, or how it is kept.
    #[serde(default, deserialize_with = "lenient")]
    pub mode: Option<String>,
}

impl File {
    /// Whether this is a stub, as files of other workspaces are.
    pub fn is_stub(&self) -> bool {
        self.file_access.as_deref() == Some("check_file_info")
    }

    /// Where its bytes are.
    pub fn url(&self) -> Option<&str> {
        let download = self.url_private_download.as_deref();
        download.or(self.url_private.as_deref())
    }
}

/// Where a new file is to be sent.
#[derive(Clone, Debug, Deserialize)]
pub struct UploadTicket {
    /// The address. Whoever has it may write there.
    pub upload_url: String,
    /// What the file will be.
    pub file_id: FileId,
}

/// A file that was fetched.
#[derive(Clone, Debug)]
pub struct Download {
    /// Of what type the server says it is, without parameters; empty if it does not say. `text/html`
    /// for a file of another type is Slack's login page: the token lacks `files:read`.
    pub mimetype: String,
    /// What is in it.
    pub bytes: Bytes,
}

impl Slack {
    /// What a file is.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `file_not_found` if we do not see it.
    pub async fn files_info(&self, at: &Installation, file: &FileId) -> Result<File, SlackError> {
        #[derive(Deserialize)]
        struct Found {
            file: File,
        }
        let args = Args::new().with("file", file.as_str());
        let found: Found = self.call(at, Method::FilesInfo, &args).await?;
        Ok(found.file)
    }

    /// The first of three steps: a place for a file.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn files_get_upload_url(
        &self,
        at: &Installation,
        name: &str,
        length: usize,
    ) -> Result<UploadTicket, SlackError> {
        let args = Args::new()
            .with("filename", name)
            .with("length", length.to_string());
        self.call(at, Method::FilesGetUploadUrl, &args).await
    }

    /// The second step: the bytes. The address is a permission of its own, so no token goes along.
    ///
    /// # Errors
    /// The address is not Slack's, or the bytes did not arrive.
    pub async fn files_upload(&self, url: &str, bytes: Bytes) -> Result<(), SlackError> {
        let url = self.slacks(UPLOAD, url)?;
        let sent = self
            .inner
            .http
            .post(url)
            .timeout(TRAVEL)
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(bytes)
            .send();
        let response = sent.await.map_err(|error| SlackError::of(UPLOAD, error))?;
        let status = response.status();
        if status.as_u16() == 429 {
            let after = retry_after(response.headers());
            let method = Method::FilesGetUploadUrl;
            return Err(SlackError::RateLimited { method, after });
        }
        if !status.is_success() {
            let (what, status) = (UPLOAD, status.as_u16());
            return Err(SlackError::Status { what, status });
        }
        whole(UPLOAD, response, RECEIPT).await.map(drop)
    }

    /// The third step: the file is shown in a thread.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn files_complete_upload(
        &self,
        at: &Installation,
        file: &FileId,
        title: &str,
        channel: &ChannelId,
        thread: Option<&Ts>,
    ) -> Result<(), SlackError> {
        let files = json!([{"id": file.as_str(), "title": title}]);
        let args = Args::new()
            .json("files", Some(&files))
            .with("channel_id", channel.as_str())
            .maybe("thread_ts", thread.map(Ts::as_str));
        self.answer(at, Method::FilesCompleteUpload, &args)
            .await
            .map(drop)
    }

    /// Fetches a file of at most `most` bytes.
    ///
    /// # Errors
    /// The address is not Slack's, the file is too large, or it did not come.
    pub async fn files_download(
        &self,
        at: &Installation,
        url: &str,
        most: usize,
    ) -> Result<Download, SlackError> {
        let fetched = self.download(at, url, most);
        let fetched = tokio::time::timeout(TRAVEL, fetched).await;
        fetched.unwrap_or(Err(SlackError::TimedOut { what: DOWNLOAD }))
    }

    async fn download(
        &self,
        at: &Installation,
        url: &str,
        most: usize,
    ) -> Result<Download, SlackError> {
        let first = self.slacks(DOWNLOAD, url)?;
        let mut url = first.clone();
        for _ in 0..=HOPS {
            let mut request = self.inner.http.get(url.clone()).timeout(TRAVEL);
            // The token goes where we were told to go, and not where that place sends us.
            if url.origin() == first.origin() {
                request = request.header(AUTHORIZATION, at.token.bearer());
            }
            let response = request.send().await;
            let response = response.map_err(|error| SlackError::of(DOWNLOAD, error))?;
            let status = response.status();
            let header = |name| response.headers().get(name)?.to_str().ok();
            if status.is_redirection() {
                let next = header(LOCATION).and_then(|next| url.join(next).ok());
                let next = next.ok_or(SlackError::Unreadable { what: DOWNLOAD })?;
                url = self.slacks(DOWNLOAD, next.as_str())?;
                continue;
            }
            if status.as_u16() == 429 {
                let after = retry_after(response.headers());
                let method = Method::FilesInfo;
                return Err(SlackError::RateLimited { method, after });
            }
            if status.as_u16() != 200 {
                let (what, status) = (DOWNLOAD, status.as_u16());
                return Err(SlackError::Status { what, status });
            }
            let mimetype = header(CONTENT_TYPE).unwrap_or_default();
            let mimetype = mimetype.split(';').next().unwrap_or_default();
            let mimetype = mimetype.trim().to_ascii_lowercase();
            let bytes = whole(DOWNLOAD, response, most).await?;
            return Ok(Download { mimetype, bytes });
        }
        Err(SlackError::Unreadable { what: DOWNLOAD })
    }

    /// Reads an address that must be Slack's.
    pub(super) fn slacks(&self, what: &'static str, url: &str) -> Result<Url, SlackError> {
        let url = Url::parse(url).ok();
        url.filter(|url| self.inner.hosts.allows(url))
            .ok_or(SlackError::ForbiddenHost { what })
    }
}
