//! One HTTP endpoint of a provider: where requests go, what goes with them, and what its errors mean.
//!
//! Redirects are not followed: a key must not travel to another address. Proxies are taken from the environment
//! (`HTTPS_PROXY`, `NO_PROXY` and so on), but never for a loopback host.
//!
//! # Invariants
//! - `address` is the base URL without user, password, query and fragment.
//! - Every text that comes from the server or from the HTTP library passes [`Endpoint::scrub`] before it is in an error.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use tokio_util::sync::CancellationToken;

use super::error::{Complaint, classify, one_line};
use super::retry::{RetryPolicy, retry_after_ms};
use super::{Exchange, ProviderError, Secret, StreamOptions};

/// How much of an error body is read, in bytes.
const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
    address: String,
    headers: Vec<(String, Secret)>,
    secrets: Vec<Secret>,
    retry: RetryPolicy,
}

/// One request, ready to be sent any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    endpoint: &'a Endpoint,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    body: String,
    timeout_ms: u64,
    now_ms: i64,
}

impl Endpoint {
    /// The endpoint `path` under `base_url`.
    ///
    /// # Errors
    /// When `base_url` is not one of HTTP, or the client cannot be made.
    pub fn new(base_url: &str, path: &str, headers: Vec<(String, Secret)>, retry: RetryPolicy) -> Result<Self, ProviderError> {
        let unusable = |detail: String| ProviderError::Unusable { detail };
        let mut url = Url::parse(base_url.trim()).map_err(|error| unusable(format!("the base URL cannot be read: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(unusable("the base URL is not one of http or https".to_owned()));
        }
        let mut secrets = headers.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        secrets.extend(url.password().map(Secret::new));
        secrets.extend(url.query_pairs().map(|(_, value)| Secret::new(value)));
        let address = address_of(&url);
        url.set_fragment(None);
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        let client = client(&url).map_err(|error| unusable(format!("no HTTP client: {}", causes(&error))))?;
        Ok(Self { client, url, address, headers, secrets, retry })
    }

    /// How requests are retried.
    pub fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// A call with `body`.
    ///
    /// # Errors
    /// When a header cannot be sent.
    pub fn call(&self, body: String, options: &StreamOptions, now_ms: i64) -> Result<Call<'_>, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        for (name, value) in self.headers.iter().chain(&options.headers) {
            let unusable = |what: &str| ProviderError::Unusable { detail: format!("{what} header {}", one_line(name)) };
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable("no such"))?;
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| unusable("the value cannot be sent as"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let secrets = self.secrets.iter().chain(options.headers.iter().map(|(_, value)| value)).cloned().collect();
        Ok(Call { endpoint: self, headers, secrets, body, timeout_ms: options.timeout_ms(), now_ms })
    }
}

impl Call<'_> {
    /// The base URL, fit for errors.
    pub fn address(&self) -> &str {
        &self.endpoint.address
    }

    /// The time limit for each wait, in milliseconds.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// What must not be shown.
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Sends the request and waits for the head of a response that is a success.
    ///
    /// # Errors
    /// When there is none, classified.
    pub async fn send(&self, exchange: &dyn Exchange, abort: &CancellationToken) -> Result<Response, ProviderError> {
        let request = self.endpoint.client.post(self.endpoint.url.clone()).headers(self.headers.clone()).body(self.body.clone());
        let response = self.wait(request.send(), abort).await?.map_err(|error| self.broken(error))?;
        let status = response.status().as_u16();
        let shown = response.headers().iter().filter(|(name, _)| *name != reqwest::header::SET_COOKIE);
        let shown = shown.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        exchange.after_response(status, &shown.collect::<Vec<_>>()).await;

        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content_type = header("content-type").unwrap_or_default();
        // An event stream often comes without a content type, but never with another one.
        let is_json = content_type.trim_start().starts_with("application/json");
        if response.status().is_success() && !is_json {
            return Ok(response);
        }
        let retry_after_ms =
            header("retry-after").and_then(|value| retry_after_ms(&value, header("date").as_deref(), self.now_ms));
        let is_success = response.status().is_success();
        let target = response.status().is_redirection().then(|| header("location")).flatten();
        let body = self.wait(read_some(response), abort).await.or_else(|error| match error {
            ProviderError::Aborted => Err(error),
            // The status alone tells enough.
            _ => Ok(String::new()),
        })?;
        let body = match target {
            Some(target) => format!("it redirects to {}", target.split(['?', '#']).next().unwrap_or_default()),
            None => body,
        };
        let body = scrub(&self.secrets, &body);
        if is_success && !body.contains("\"error\"") {
            let detail = "an answer that is no event stream".to_owned();
            return Err(ProviderError::Malformed { address: self.address().to_owned(), detail });
        }
        let status = (!is_success).then_some(status);
        Err(classify(self.address(), &Complaint { status, body, retry_after_ms }))
    }

    /// Waits for `work` within the time limit.
    async fn wait<T>(&self, work: impl Future<Output = T>, abort: &CancellationToken) -> Result<T, ProviderError> {
        tokio::select! {
            biased;
            () = abort.cancelled() => Err(ProviderError::Aborted),
            done = tokio::time::timeout(Duration::from_millis(self.timeout_ms), work) => done.map_err(|_| {
                ProviderError::TimedOut { address: self.address().to_owned(), timeout_ms: self.timeout_ms }
            }),
        }
    }

    /// Says what an error of the HTTP library means.
    fn broken(&self, error: reqwest::Error) -> ProviderError {
        let is_connect = error.is_connect();
        let (address, detail) = (self.address().to_owned(), scrub(&self.secrets, &causes(&error.without_url())));
        match is_connect {
            true => ProviderError::Unreachable { address, detail },
            false => ProviderError::Cut { address, detail },
        }
    }
}

/// The base URL without what may be secret.
fn address_of(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // These fail for URLs without a host, which have neither.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.as_str().trim_end_matches('/').to_owned()
}

fn client(url: &Url) -> Result<Client, reqwest::Error> {
    // Fails where the application chose a provider before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("pi-sessions/", env!("CARGO_PKG_VERSION")));
    let builder = match is_loopback(url) {
        true => builder.no_proxy(),
        false => builder,
    };
    // Without TLS on the way the system's certificates are not needed, and some machines have none.
    match is_loopback(url) && url.scheme() == "http" {
        true => builder.tls_certs_only([]).build(),
        false => builder.build(),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

/// The beginning of a body; what cannot be read is left out.
async fn read_some(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= ERROR_BODY_LIMIT {
            bytes.truncate(ERROR_BODY_LIMIT);
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `text` without any of `secrets`.
pub(crate) fn scrub(secrets: &[Secret], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| {
        // A header value may be a scheme and a key; a server may echo the key alone.
        let key = secret.expose().rsplit(' ').next().map(Secret::new);
        key.iter().chain([secret]).fold(text, |text, secret| secret.scrub(&text))
    })
}

/// The innermost cause of an error, which is what the system said.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> Result<Endpoint, ProviderError> {
        Endpoint::new(base_url, "/v1/messages", vec![("authorization".into(), Secret::new("Bearer key-abc"))], RetryPolicy::NEVER)
    }

    #[test]
    fn the_path_follows_the_base_url_and_the_query_stays() {
        let check = |base_url: &str, url: &str| assert_eq!(endpoint(base_url).expect(base_url).url.as_str(), url);
        check("http://127.0.0.1:1", "http://127.0.0.1:1/v1/messages");
        check("http://127.0.0.1:1/", "http://127.0.0.1:1/v1/messages");
        check("http://localhost/a/b/?v=1#x", "http://localhost/a/b/v1/messages?v=1");
        check("http://[::1]:8080/a", "http://[::1]:8080/a/v1/messages");
    }

    #[test]
    fn the_address_and_debug_hold_no_secret() {
        let endpoint = endpoint("http://user:pass-word@127.0.0.1:1/v1?key=hush-hush").expect("a URL");
        assert_eq!(endpoint.address, "http://127.0.0.1:1/v1");
        let secrets = endpoint.call(String::new(), &StreamOptions::default(), 0).expect("a call").secrets;
        assert_eq!(scrub(&secrets, "pass-word hush-hush Bearer key-abc, key-abc"), "*** *** Bearer ***, ***");
    }

    #[test]
    fn what_is_no_base_url_is_refused_without_repeating_it() {
        for base_url in ["", "example.com/v1", "ftp://u:hush@h", "http://", "file:///etc"] {
            let text = endpoint(base_url).expect_err(base_url).to_string();
            assert!(text.contains("base URL") && !text.contains("hush"), "{text}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named_without_its_value() {
        let endpoint = endpoint("http://127.0.0.1:1").expect("a URL");
        let options = StreamOptions { headers: vec![("x-a".into(), Secret::new("hush\u{1}hush"))], ..StreamOptions::default() };
        let text = endpoint.call(String::new(), &options, 0).expect_err("refused").to_string();
        assert_eq!(text, "the request cannot be made: the value cannot be sent as header x-a");
    }
}
