//! A model server on loopback that plays a script and keeps what it was sent.
//!
//! # Invariants
//! - It runs on a thread of its own, so tests with and without a runtime can use it; dropping it ends everything.
//! - Each request takes the next answer of the script; after the last one the answer is status 410.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// What one request gets.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A whole response.
    Response { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// These pieces as a chunked event stream.
    Events(Vec<String>),
    /// These pieces, then the connection breaks within the body.
    Cut(Vec<String>),
    /// These pieces, then nothing more until the server is dropped.
    Hang(Vec<String>),
    /// Not even a response head.
    Silence,
}

impl Answer {
    /// A JSON response.
    pub fn json(status: u16, body: &str) -> Self {
        Self::Response { status, headers: vec![("content-type", "application/json".to_owned())], body: body.to_owned() }
    }

    /// A JSON response with one further header.
    pub fn json_with(status: u16, header: (&'static str, &str), body: &str) -> Self {
        let headers = vec![("content-type", "application/json".to_owned()), (header.0, header.1.to_owned())];
        Self::Response { status, headers, body: body.to_owned() }
    }
}

/// The events of a chat completion: each of `chunks` as data, then the end mark.
pub fn openai_events(chunks: &[&str]) -> Vec<String> {
    chunks.iter().chain(&["[DONE]"]).map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// The events of a message, each named by its `type`.
pub fn anthropic_events(events: &[&str]) -> Vec<String> {
    let name = |event: &str| event.split('"').nth(3).unwrap_or_default().to_owned();
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event))).collect()
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path with its query.
    pub path: String,
    /// The head, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

/// The server.
pub struct ModelServer {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server that plays `script`.
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let stop = CancellationToken::new();
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let (kept, stopped) = (Arc::clone(&received), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // Dropping the runtime drops the connections.
            runtime.block_on(stopped.run_until_cancelled(accept(listener, script, kept)));
        });
        Self { url, received, stop, thread: Some(thread) }
    }

    /// The requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, script: Arc<Mutex<VecDeque<Answer>>>, received: Arc<Mutex<Vec<Received>>>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let (script, received) = (Arc::clone(&script), Arc::clone(&received));
        tokio::spawn(async move {
            // A client that goes away is no fault of the test.
            let _ = serve(stream, &script, &received).await;
        });
    }
}

async fn serve(mut stream: TcpStream, script: &Mutex<VecDeque<Answer>>, received: &Mutex<Vec<Received>>) -> std::io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    received.lock().expect("no panic").push(request);
    let answer = script.lock().expect("no panic").pop_front();
    let answer = answer.unwrap_or_else(|| Answer::json(410, r#"{"error":{"message":"the script is used up"}}"#));
    match answer {
        Answer::Response { status, headers, body } => {
            let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(head.as_bytes()).await?;
        }
        Answer::Events(pieces) => {
            write_pieces(&mut stream, &pieces).await?;
            stream.write_all(b"0\r\n\r\n").await?;
        }
        Answer::Cut(pieces) => write_pieces(&mut stream, &pieces).await?,
        Answer::Hang(pieces) => {
            write_pieces(&mut stream, &pieces).await?;
            std::future::pending::<()>().await;
        }
        Answer::Silence => std::future::pending::<()>().await,
    }
    stream.shutdown().await
}

async fn write_pieces(stream: &mut TcpStream, pieces: &[String]) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for piece in pieces {
        stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// `None` where the client closed without asking.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let first = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let head = first.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length = length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0);
            while bytes.len() < end + 4 + length {
                match stream.read(&mut buffer).await? {
                    0 => return Ok(None),
                    n => bytes.extend_from_slice(&buffer[..n]),
                }
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
            return Ok(Some(Received { path, head, body }));
        }
        match stream.read(&mut buffer).await? {
            0 => return Ok(None),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}
