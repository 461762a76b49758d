//! Downloads bytes for `containers`, which opens no socket itself.

use gular_containers::fetch::{Stream, Transport, TransportFault};
use gular_pelican::{Client, ClientOptions, Env, Error, Object, Url, Watch};
use gular_registry::{Reference, Registry};

use crate::exit::Failure;
use crate::stop::Stop;

/// Fetches by the client for Pelican, which reads plain HTTP as well: retries,
/// proxies, certificates and stalled servers are its business.
pub(crate) struct Web<'a> {
    client: Client,
    watch: Watch<'a>,
}

impl<'a> Web<'a> {
    pub(super) fn new(stop: &'a Stop) -> Result<Self, Failure> {
        Self::limited(stop, None)
    }

    /// Returns a transport that fetches at most this many bytes per second.
    pub(crate) fn limited(stop: &'a Stop, limit_rate: Option<u64>) -> Result<Self, Failure> {
        let mut options = ClientOptions::new(Env::process());
        options.max_bytes_per_second = limit_rate;
        // Packages are public, and their archives are no business of a token for storage.
        options.find_tokens = false;
        let client = Client::new(options)?;
        Ok(Self { client, watch: stop.watch() })
    }
}

impl Stream for Web<'_> {
    fn stream(
        &self,
        url: &str,
        bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), TransportFault> {
        let url = parse(url)?;
        // Only the digest of the whole is known, which the caller checks.
        let object = Object { url: &url, len_bytes: bytes, accepts: &|_, _| true };
        let block = from / gular_pelican::BLOCK_BYTES as u64;
        let mut sink = |_, bytes: &[u8]| sink(bytes);
        self.client.stream(&object, block..u64::MAX, &mut sink, self.watch).map_err(fault)
    }
}

impl Transport for Web<'_> {
    fn read(&self, url: &str, limit: u64) -> Result<Vec<u8>, TransportFault> {
        let url = parse(url)?;
        self.client.read(&url, limit, &|_| Ok(()), self.watch).map_err(fault)
    }

    fn len(&self, url: &str) -> Result<Option<u64>, TransportFault> {
        let stat = self.client.stat(&parse(url)?, self.watch).map_err(fault)?;
        Ok(stat.len_bytes)
    }

    fn registry(&self, reference: &Reference) -> gular_registry::Result<Registry<'_>> {
        Registry::open(reference, &self.client, self.watch)
    }
}

fn parse(url: &str) -> Result<Url, TransportFault> {
    Url::parse(url).map_err(|e| TransportFault::lasting(e.to_string(), Some(e.hint().to_owned())))
}

fn fault(error: Error) -> TransportFault {
    match error {
        Error::NotFound { .. } => TransportFault::NotFound(error.to_string()),
        Error::Sink { source, .. } => TransportFault::Sink(source),
        Error::Cancelled => TransportFault::Cancelled,
        error => {
            let (hint, passes) = (error.hint(), error.is_passing());
            TransportFault::Failed { message: error.to_string(), hint, passes }
        }
    }
}
