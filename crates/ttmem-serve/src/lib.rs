//! Stored reports over HTTP: the list, the pages, the JSON answers, and the upload of logs.
