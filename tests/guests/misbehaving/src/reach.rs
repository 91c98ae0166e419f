//! Attempts at access. Each function reports the result: `refused: …` or `allowed: …`; of several attempts one that
//! succeeds is enough for `allowed`.

use ccm_guest::Error;
use ccm_guest::http::{Method, Request, Response, send_all};

const GRANTED: &str = "/machines/probe";

/// The one request that the grant covers.
pub fn granted_request() -> String {
    verdict("GET /machines/probe", Request::get("api", GRANTED).send())
}

/// A path that no rule covers.
pub fn other_path() -> String {
    verdict("GET /secrets", Request::get("api", "/secrets").send())
}

/// A method that no rule covers.
pub fn other_method() -> String {
    verdict(
        "DELETE /machines/probe",
        Request::delete("api", GRANTED).send(),
    )
}

/// A target that the manifest does not have.
pub fn other_target() -> String {
    verdict(
        "GET /machines/probe of another target",
        Request::get("metadata", GRANTED).send(),
    )
}

/// Paths that a careless host would resolve to another one.
pub fn path_tricks() -> String {
    const PATHS: &[&str] = &[
        "/machines/..",
        "/machines/../secrets",
        "/machines/./probe",
        "/machines/%2e%2e",
        "/machines/probe%2f..%2fsecrets",
        "/machines/probe%5c..",
        "/machines/probe\\secrets",
        "/machines//probe",
        "//169.254.169.254/latest",
        "http://169.254.169.254/latest",
        "@169.254.169.254/",
        "machines/probe",
        "",
        "/machines/probe?x=1",
        "/machines/probe#x",
        "/machines/probe\r\nHost: elsewhere.example",
        "/machines/probe\0",
    ];
    all_of(
        PATHS
            .iter()
            .map(|path| (path.escape_debug().to_string(), Request::get("api", *path))),
    )
}

/// Headers that belong to the host.
pub fn host_headers() -> String {
    const HEADERS: &[(&str, &str)] = &[
        ("Host", "elsewhere.example"),
        ("Authorization", "Bearer mine"),
        ("AUTHORIZATION", "Bearer mine"),
        ("Cookie", "session=1"),
        ("Connection", "close"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Proxy-Authorization", "Basic x"),
        ("Forwarded", "for=127.0.0.1"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "elsewhere.example"),
        ("x-split", "one\r\nauthorization: Bearer mine"),
        ("x split", "one"),
        ("", "one"),
    ];
    all_of(HEADERS.iter().map(|(name, value)| {
        (
            format!("header {}", name.escape_debug()),
            Request::get("api", GRANTED).header(name, *value),
        )
    }))
}

/// A body over the cap.
pub fn huge_body() -> String {
    let body = "b".repeat(2 * 1024 * 1024);
    match Request::new(Method::Get, "api", GRANTED).json(&body) {
        Ok(request) => verdict("a body of 2 MiB", request.send()),
        Err(error) => format!("allowed: the guest itself failed: {}", error.message()),
    }
}

/// Many requests, one after the other in batches as large as allowed.
pub fn flood() -> String {
    let (mut answered, mut throttled) = (0, 0);
    for _ in 0..157 {
        for answer in send_all(vec![Request::get("api", GRANTED); 64]) {
            match answer {
                Ok(_) => answered += 1,
                Err(Error::Throttled(_)) => throttled += 1,
                Err(_) => {}
            }
        }
    }
    format!("told: {answered} of 10048 requests were answered, {throttled} throttled")
}

/// Many requests in one call of the host.
pub fn flood_at_once() -> String {
    let answered = raw::fetch_all(10_000);
    format!("told: {answered} of 10000 requests were answered")
}

/// Files, environment, arguments and sockets: none of them is there.
pub fn read_host() -> String {
    let mut open = Vec::new();
    for path in [
        "/etc/passwd",
        "/proc/self/environ",
        ".",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
    ] {
        if std::fs::metadata(path).is_ok()
            || std::fs::read(path).is_ok()
            || std::fs::read_dir(path).is_ok()
        {
            open.push(format!("file {path}"));
        }
    }
    open.extend(std::env::vars().map(|(key, _)| format!("variable {key}")));
    open.extend(std::env::args().map(|text| format!("argument {text}")));
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
    if std::net::UdpSocket::bind("127.0.0.1:0").is_ok()
        || std::net::TcpStream::connect(address).is_ok()
    {
        open.push("sockets".to_owned());
    }
    match open.is_empty() {
        true => "refused: no file, no variable, no argument, no socket".to_owned(),
        false => format!("allowed: {}", open.join(", ")),
    }
}

/// `GET http://{host}{path}` through `wasi:http`.
pub fn url(host: &str, path: &str) -> String {
    raw::url(host, path)
}

/// Names that do not exist, left with the host.
pub fn hoard_names() -> String {
    let name = "x".repeat(1024 * 1024);
    match raw::names_taken(&name) {
        0 => "refused: a name of 1 MiB, as method and as host".to_owned(),
        taken => format!("allowed: {taken} names of 1 MiB"),
    }
}

/// Bodies that never end, of a mebibyte each.
pub fn hoard_bodies() -> String {
    match raw::body_bytes_taken(100, 1024 * 1024) >> 20 {
        few @ 1..=16 => format!("refused: {few} MiB of bodies were taken"),
        many => format!("allowed: {many} MiB of bodies were taken"),
    }
}

/// A body that begins and never ends.
pub fn slow_body(authority: &str) -> String {
    match raw::wait_for_answer_to_half_a_body(authority, "/v1/balancers") {
        true => "allowed: half a body was answered".to_owned(),
        false => "refused: half a body".to_owned(),
    }
}

/// Header fields and paths in requests that are never sent.
pub fn hoard_fields() -> String {
    match raw::field_bytes_taken(1_000) >> 20 {
        few @ 0..=12 => format!("refused: {few} MiB of fields and paths were taken"),
        many => format!("allowed: {many} MiB of fields and paths were taken"),
    }
}

/// Header fields without a request, a million times.
pub fn hoard_handles() -> String {
    format!(
        "allowed: {} objects at the host",
        raw::objects_made(1_000_000)
    )
}

/// A million header fields in one request.
pub fn many_fields() -> String {
    format!("allowed: {} fields", raw::fields_appended(1_000_000))
}

/// As many header fields at once as no map of them can hold.
pub fn many_fields_at_once() -> String {
    match raw::fields_at_once(32_769) {
        true => "allowed: 32769 fields".to_owned(),
        false => "refused: 32769 fields".to_owned(),
    }
}

/// A hundred large answers, which are left with the host; `cache` is their `cache-control`.
pub fn hoard_answers(authority: &str, cache: Option<&str>) -> String {
    match raw::answers_held(100, authority, "/v1/machines/probe", cache) {
        1 => "refused: 1 of 100 answers was held".to_owned(),
        held => format!("allowed: {held} of 100 answers were held"),
    }
}

/// As many large answers as one call of the host may bring.
pub fn fetch_all_huge() -> String {
    match raw::fetch_all(64) {
        1 => "refused: 1 of 64 answers came".to_owned(),
        came => format!("allowed: {came} of 64 answers came"),
    }
}

fn all_of(requests: impl Iterator<Item = (String, Request)>) -> String {
    let mut refused = 0;
    for (what, request) in requests {
        match request.send() {
            Err(Error::Denied(_) | Error::Internal(_)) => refused += 1,
            other => return verdict(&what, other),
        }
    }
    format!("refused: all {refused}")
}

/// A refusal is `denied`, or `invalid`, which the SDK calls internal. Any other failure counts as allowed.
fn verdict(what: &str, answer: Result<Response, Error>) -> String {
    match answer {
        Ok(response) => format!("allowed: {what} was answered {}", response.status()),
        Err(Error::Denied(why) | Error::Internal(why)) => format!("refused: {why}"),
        Err(error) => format!("allowed: {what} was tried: {}", error.message()),
    }
}

#[cfg(target_arch = "wasm32")]
mod raw {
    //! Calls that the SDK would not make, or has no function for.

    use ccm_guest::bindings::host::ccm::provider::http;
    use wasip2::http::outgoing_handler::handle;
    use wasip2::http::types::{
        Fields, IncomingBody, IncomingResponse, Method, OutgoingRequest, Scheme,
    };

    /// How many of `count` requests in one `fetch-all` are answered.
    pub(super) fn fetch_all(count: usize) -> usize {
        let request = http::Request {
            supplementary: false,
            target: "api".to_owned(),
            method: http::Method::Get,
            path: super::GRANTED.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
        };
        http::fetch_all(&vec![request; count])
            .iter()
            .filter(|answer| answer.is_ok())
            .count()
    }

    /// How often a request accepts this name, as its method and as its host.
    pub(super) fn names_taken(name: &str) -> usize {
        let request = OutgoingRequest::new(Fields::new());
        let as_method = request.set_method(&Method::Other(name.to_owned()));
        let as_host = request.set_authority(Some(name));
        [as_method, as_host]
            .iter()
            .filter(|taken| taken.is_ok())
            .count()
    }

    /// How many bytes of `requests` bodies of `bytes` bytes each are accepted, when all of them are written at the same
    /// time and none is ended.
    pub(super) fn body_bytes_taken(requests: usize, bytes: usize) -> usize {
        const ROUNDS: usize = 40;
        const PIECE: &[u8] = &[b'b'; 64 * 1024];
        // A stream must be dropped before its body.
        let mut open = Vec::new();
        for _ in 0..requests {
            let request = OutgoingRequest::new(Fields::new());
            let (Ok(()), Ok(()), Ok(body)) = (
                request.set_method(&Method::Post),
                request
                    .set_authority(Some("not-granted.example"))
                    .and_then(|()| request.set_path_with_query(Some("/"))),
                request.body(),
            ) else {
                continue;
            };
            let stream = body.write();
            let sent = request
                .set_scheme(Some(&Scheme::Http))
                .map_or(None, |()| handle(request, None).ok());
            if let (Ok(stream), Some(answer)) = (stream, sent) {
                open.push((stream, body, answer, 0));
            }
        }
        for _ in 0..ROUNDS {
            for (stream, _, _, taken) in &mut open {
                while let Ok(room @ 1..) = stream.check_write() {
                    let most = PIECE.len().min(bytes - *taken);
                    let piece = &PIECE[..most.min(usize::try_from(room).unwrap_or(most))];
                    if piece.is_empty() || stream.write(piece).is_err() {
                        break;
                    }
                    *taken += piece.len();
                }
            }
            // Gives the host time to read.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        open.iter().map(|(_, _, _, taken)| taken).sum()
    }

    /// Whether a request is answered whose body has begun with one byte and does not go on.
    pub(super) fn wait_for_answer_to_half_a_body(authority: &str, path: &str) -> bool {
        let request = OutgoingRequest::new(Fields::new());
        let is_written = request.set_method(&Method::Post).is_ok()
            && request.set_scheme(Some(&Scheme::Http)).is_ok()
            && request.set_authority(Some(authority)).is_ok()
            && request.set_path_with_query(Some(path)).is_ok();
        let (true, Ok(body)) = (is_written, request.body()) else {
            return false;
        };
        let Ok(stream) = body.write() else {
            return false;
        };
        let Ok(answer) = handle(request, None) else {
            return false;
        };
        let has_begun = stream.blocking_write_and_flush(b"{").is_ok();
        answer.subscribe().block();
        has_begun && matches!(answer.get(), Some(Ok(Ok(_))))
    }

    /// How many bytes of header fields and paths are accepted in this many requests, each with the maximum number of
    /// fields.
    pub(super) fn field_bytes_taken(requests: usize) -> usize {
        const VALUES: usize = 2;
        let value = vec![b'x'; 3500];
        let path = format!("/{}", "p".repeat(60_000));
        let mut held = Vec::new();
        let mut taken = 0;
        for _ in 0..requests {
            let fields = Fields::new();
            for number in 0..VALUES {
                if fields.append(&format!("x-{number}"), &value).is_err() {
                    break;
                }
                taken += value.len();
            }
            let request = OutgoingRequest::new(fields);
            if request.set_path_with_query(Some(&path)).is_ok() {
                taken += path.len();
            }
            held.push(request);
        }
        taken
    }

    /// How many objects the host keeps, of `count` that are made.
    pub(super) fn objects_made(count: usize) -> usize {
        let made: Vec<_> = (0..count).map(|_| Fields::new()).collect();
        made.len()
    }

    /// How many of `count` header fields without a value are accepted, one by one.
    pub(super) fn fields_appended(count: usize) -> usize {
        let fields = Fields::new();
        (0..count)
            .take_while(|number| fields.append(&format!("x-{number}"), b"").is_ok())
            .count()
    }

    /// Whether this many are accepted at once.
    pub(super) fn fields_at_once(count: usize) -> bool {
        let fields: Vec<_> = (0..count)
            .map(|number| (format!("x-{number}"), Vec::new()))
            .collect();
        Fields::from_list(&fields).is_ok()
    }

    /// How many of `count` answers exist at the same time, unread.
    pub(super) fn answers_held(
        count: usize,
        authority: &str,
        path: &str,
        cache: Option<&str>,
    ) -> usize {
        let mut held: Vec<(IncomingResponse, IncomingBody)> = Vec::new();
        for _ in 0..count {
            let fields = Fields::new();
            if let Some(cache) = cache {
                let _ = fields.append("cache-control", cache.as_bytes());
            }
            let Some(request) = get(fields, authority, path) else {
                continue;
            };
            let Ok(answer) = handle(request, None) else {
                continue;
            };
            answer.subscribe().block();
            if let Some(Ok(Ok(response))) = answer.get()
                && let Ok(body) = response.consume()
            {
                held.push((response, body));
            }
        }
        held.len()
    }

    fn get(fields: Fields, authority: &str, path: &str) -> Option<OutgoingRequest> {
        let request = OutgoingRequest::new(fields);
        let is_written = request.set_scheme(Some(&Scheme::Http)).is_ok()
            && request.set_authority(Some(authority)).is_ok()
            && request.set_path_with_query(Some(path)).is_ok();
        is_written.then_some(request)
    }

    pub(super) fn url(host: &str, path: &str) -> String {
        let Some(request) = get(Fields::new(), host, path) else {
            return "refused: the request could not be written".to_owned();
        };
        let answer = match handle(request, None) {
            Ok(answer) => answer,
            Err(code) => return format!("refused: {code:?}"),
        };
        answer.subscribe().block();
        match answer.get() {
            Some(Ok(Ok(response))) => format!("allowed: {host} answered {}", response.status()),
            Some(Ok(Err(code))) => format!("refused: {code:?}"),
            other => format!("allowed: no proper end: {other:?}"),
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod raw {
    //! `wasi:http` exists on Wasm alone.

    pub(super) fn fetch_all(_: usize) -> usize {
        0
    }

    pub(super) fn names_taken(_: &str) -> usize {
        0
    }

    pub(super) fn body_bytes_taken(_: usize, _: usize) -> usize {
        0
    }

    pub(super) fn wait_for_answer_to_half_a_body(_: &str, _: &str) -> bool {
        false
    }

    pub(super) fn field_bytes_taken(_: usize) -> usize {
        0
    }

    pub(super) fn objects_made(_: usize) -> usize {
        0
    }

    pub(super) fn fields_appended(_: usize) -> usize {
        0
    }

    pub(super) fn fields_at_once(_: usize) -> bool {
        false
    }

    pub(super) fn answers_held(_: usize, _: &str, _: &str, _: Option<&str>) -> usize {
        0
    }

    pub(super) fn url(_: &str, _: &str) -> String {
        "refused: this is no guest".to_owned()
    }
}
