//! The status codes that Ice answers with, each with its reason phrase.

/// A status code of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        #[allow(missing_docs)]
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// The status line that opens an answer, without its line end.
            pub fn line(self) -> &'static str {
                match self.0 {
                    $($code => concat!("HTTP/1.1 ", $code, " ", $reason),)*
                    _ => "HTTP/1.1 500 Internal Server Error",
                }
            }
        }
    };
}

statuses! {
    OK 200 "OK"
    NO_CONTENT 204 "No Content"
    PARTIAL_CONTENT 206 "Partial Content"
    MOVED_PERMANENTLY 301 "Moved Permanently"
    NOT_MODIFIED 304 "Not Modified"
    BAD_REQUEST 400 "Bad Request"
    FORBIDDEN 403 "Forbidden"
    NOT_FOUND 404 "Not Found"
    METHOD_NOT_ALLOWED 405 "Method Not Allowed"
    REQUEST_TIMEOUT 408 "Request Timeout"
    PRECONDITION_FAILED 412 "Precondition Failed"
    CONTENT_TOO_LARGE 413 "Content Too Large"
    URI_TOO_LONG 414 "URI Too Long"
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable"
    EXPECTATION_FAILED 417 "Expectation Failed"
    HEADERS_TOO_LARGE 431 "Request Header Fields Too Large"
    INTERNAL_ERROR 500 "Internal Server Error"
    NOT_IMPLEMENTED 501 "Not Implemented"
    UNAVAILABLE 503 "Service Unavailable"
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported"
}

impl Status {
    /// The number.
    pub fn code(self) -> u16 {
        self.0
    }

    /// Number and phrase, as a page shows them.
    pub fn phrase(self) -> &'static str {
        &self.line()["HTTP/1.1 ".len()..]
    }
}
