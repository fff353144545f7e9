//! `ttmem serve`: stored reports in a browser, with upload.

use std::net::IpAddr;

use clap::Args;
use ttmem::{Error, Result};

/// `ttmem serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The port, instead of the first that is free from 8000 up.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// The address to listen on; others than loopback always need the token.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: IpAddr,

    /// Start no browser.
    #[arg(long)]
    pub no_open: bool,

    /// Ask for no token (on loopback only): everybody on this machine may read and upload.
    #[arg(long)]
    pub no_token: bool,

    /// The largest upload.
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub max_upload: String,
}

/// Serves until it is stopped.
pub(crate) fn run(_args: &Serve) -> Result<()> {
    Err(Error::Bug("not there yet".into()))
}
