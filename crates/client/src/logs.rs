//! A container's output as it comes, read at the caller's own pace: however long it is, no more of it is in
//! memory than one piece.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::Incoming;
use steadfast_api::{LogStream, paths};

use crate::transport::innermost;
use crate::{BaseUrl, ClientError};

/// Which part of which output; the default is all of the present attempt's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogsQuery {
    /// The deployment, from 1.
    pub attempt: Option<u32>,
    /// Which output.
    pub stream: LogStream,
    /// Only so many last lines; not together with an offset.
    pub tail: Option<u64>,
    /// From this byte on.
    pub offset: Option<u64>,
    /// Go on until the container has ended.
    pub follow: bool,
}

/// An output on its way.
#[derive(Debug)]
pub struct Output {
    url: BaseUrl,
    attempt: Option<u32>,
    offset: u64,
    body: Incoming,
}

impl Output {
    pub(crate) fn new(url: BaseUrl, headers: &HeaderMap, body: Incoming) -> Self {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
        let attempt = number(paths::LOG_ATTEMPT).and_then(|number| number.try_into().ok());
        Self { url, attempt, offset: number(paths::LOG_OFFSET).unwrap_or(0), body }
    }

    /// The attempt that wrote it.
    pub const fn attempt(&self) -> Option<u32> {
        self.attempt
    }

    /// Where the next byte stands in all that was written. It begins behind the offset that was asked for
    /// where what lies between is not kept any more.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes; `None` at the end. Waits as long as it takes.
    ///
    /// # Errors
    /// [`ClientError::BrokenOff`]; what came before it is right, and [`Output::offset`] is where to go on.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| ClientError::BrokenOff {
                url: self.url.clone(),
                why: innermost(&error),
            })?;
            // Trailers are not output.
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                self.offset += bytes.len() as u64;
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}
