//! Headless Chromium, with pages from a server of the test's own: nothing else is reachable.
//!
//! `MILLSTREAM_CHROMIUM` names the browser; without it, the usual names are tried. A test that
//! finds none is skipped with a message.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running browser, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the browser's program.
fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("MILLSTREAM_CHROMIUM") {
        return Some(given.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let all = std::env::split_paths(&folders);
    all.flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}

/// The files of a site, by path.
pub(crate) type Site = HashMap<String, Vec<u8>>;

/// Opens `/index.html` of a site, and returns the text that its script posts to `/result`. Returns
/// none, after a message, where there is no browser.
pub(crate) fn result(site: Site, window: [u32; 2], flags: &[&str]) -> Option<String> {
    let Some(program) = program() else {
        eprintln!("skipped: there is no Chromium; MILLSTREAM_CHROMIUM names one");
        return None;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send, results) = mpsc::channel();
    let site = Arc::new(site);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (site, send) = (site.clone(), send.clone());
            thread::spawn(move || serve(stream, &site, &send));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let [width, height] = window;
    let browser = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--mute-audio"])
        .arg("--remote-debugging-port=0")
        .arg(format!("--user-data-dir={}", folder.path().display()))
        .arg(format!("--window-size={width},{height}"))
        .args(flags)
        .arg(format!("http://127.0.0.1:{port}/index.html"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let browser = Running(browser);
    let result = results.recv_timeout(PATIENCE);
    drop(browser);
    Some(result.expect("the page posts a result in time"))
}

/// Answers one request.
fn serve(mut stream: TcpStream, site: &Site, results: &mpsc::Sender<String>) {
    let Ok(read) = stream.try_clone() else { return };
    let mut reader = BufReader::new(read);
    let mut request = String::new();
    let mut length = 0;
    if reader.read_line(&mut request).is_err() {
        return;
    }
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(count) if count > 0 && line.trim() != "" => {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
            }
            _ => break,
        }
    }
    let mut body = vec![0; length];
    let posted = reader.read_exact(&mut body).is_ok();
    let path = request.split(' ').nth(1).unwrap_or("/");
    if request.starts_with("POST /result") && posted {
        let _ = results.send(String::from_utf8_lossy(&body).into_owned());
    }
    let (status, content) = match site.get(path) {
        Some(content) => ("200 OK", content.as_slice()),
        None => ("404 Not Found", &[][..]),
    };
    let ty = match path.rsplit('.').next() {
        Some("js") => "text/javascript",
        Some("wasm") => "application/wasm",
        Some("html") => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    };
    let length = content.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {ty}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    // The browser may have gone.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(content);
}
