//! Sends requests to registries for `containers`, which opens no socket itself.

use std::io;
use std::time::Duration;

use gular_containers::registry::{self, Answer, Request, Wire, WireFault};
use gular_pelican::{Exchange, ExchangeFault};

use super::transport::Web;

impl Wire for Web<'_> {
    fn send(
        &self,
        request: &Request,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Answer, WireFault> {
        let exchange = Exchange {
            method: request.method.name(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            authorization: request.authorization.as_ref().map(|secret| secret.text().to_owned()),
            body: request.body.clone(),
        };
        let answer = self.client.exchange(&exchange, sink, self.watch).map_err(fault)?;
        let (status, headers) = (answer.status, answer.headers);
        Ok(Answer { status, headers, body: answer.body, retry_after: answer.retry_after })
    }

    fn trials(&self) -> Box<dyn registry::Retries + '_> {
        Box::new(WebRetries { trials: self.client.trials(), web: self })
    }
}

struct WebRetries<'a> {
    trials: gular_pelican::Trials,
    web: &'a Web<'a>,
}

impl registry::Retries for WebRetries<'_> {
    fn again(&mut self, asked: Option<Duration>) -> Result<bool, WireFault> {
        self.trials.again(asked, self.web.watch).map_err(fault)
    }

    fn progressed(&mut self) {
        self.trials.progressed();
    }
}

fn fault(fault: ExchangeFault) -> WireFault {
    match fault {
        ExchangeFault::Cancelled => WireFault::Cancelled,
        ExchangeFault::Sink(e) => WireFault::Sink(e),
        ExchangeFault::Passing(reason) => WireFault::Passing(reason),
        ExchangeFault::Lasting(reason) => WireFault::Lasting(reason),
    }
}
