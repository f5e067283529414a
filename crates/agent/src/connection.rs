//! The agent's one connection to whichever coordinator leads.
//!
//! Its closing is news for both sides, so it must not linger half open: five seconds without any frame
//! (the coordinator pings every second) count as closed. A [`Link`] is one attempt and the connection
//! that came of it; [`Route`] decides whom the next attempt asks, and when; a [`Line`] is both.

use std::fmt;
use std::future::pending;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use steadfast_api::{FromAgent, LogPart, ToAgent, paths};
use steadfast_client::{BaseUrl, Token};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, LOCATION};
use tokio_tungstenite::tungstenite::{Error, Message};

/// From connecting to the end of the upgrade.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an agent that closes waits for its last words to be taken.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
const FIRST_BACK_OFF_MS: u64 = 50;
const LONGEST_BACK_OFF_MS: u64 = 500;

/// Whom to ask next, and how long to wait before.
///
/// The pause is between rounds, not between attempts: while a leader that died is being followed, standbys
/// still name it, and whoever paused after each of them would come to the new one a second late.
#[derive(Debug)]
struct Route {
    configured: Vec<BaseUrl>,
    /// The announced ones first; the configured ones are never forgotten.
    known: Vec<BaseUrl>,
    next: usize,
    /// Named by a standby; asked before the others, but not twice in one round.
    hint: Option<BaseUrl>,
    /// Who was asked in this round.
    asked: Vec<BaseUrl>,
    /// Rounds that were begun since a coordinator said welcome.
    rounds: u32,
}

impl Route {
    pub fn new(configured: Vec<BaseUrl>) -> Self {
        Self {
            known: configured.clone(),
            configured,
            next: 0,
            hint: None,
            asked: Vec::new(),
            rounds: 0,
        }
    }

    /// The next attempt. The first round begins at once after a connection that served, each later one after a
    /// back-off between half and the whole of 50, 100, … 500 ms; within a round nobody waits. `jitter` is any
    /// number.
    pub fn attempt(&mut self, jitter: u64) -> (BaseUrl, Duration) {
        let of_this_round = if self.rounds > 0 { self.not_yet_asked() } else { None };
        let (url, delay_ms) = match of_this_round {
            Some(url) => (url, 0),
            None => {
                let delay_ms = self.begin_round(jitter);
                // Nobody was asked in it yet, and somebody is always known.
                (self.not_yet_asked().unwrap_or_else(|| self.known[0].clone()), delay_ms)
            }
        };
        self.asked.push(url.clone());
        (url, Duration::from_millis(delay_ms))
    }

    /// The one to ask next in this round; `None` at its end.
    fn not_yet_asked(&mut self) -> Option<BaseUrl> {
        if let Some(hint) = self.hint.take_if(|hint| !self.asked.contains(hint)) {
            return Some(hint);
        }
        let mut places = (0..self.known.len()).map(|step| (self.next + step) % self.known.len());
        let place = places.find(|place| !self.asked.contains(&self.known[*place]))?;
        self.next = (place + 1) % self.known.len();
        Some(self.known[place].clone())
    }

    /// How long to wait before it.
    fn begin_round(&mut self, jitter: u64) -> u64 {
        self.asked.clear();
        let rounds_before = self.rounds;
        self.rounds = self.rounds.saturating_add(1);
        if rounds_before == 0 {
            return 0;
        }
        let doubled_ms = FIRST_BACK_OFF_MS << (rounds_before - 1).min(8);
        let longest_ms = doubled_ms.min(LONGEST_BACK_OFF_MS);
        longest_ms / 2 + jitter % (longest_ms / 2 + 1)
    }

    /// `current` serves and announced these. Whoever served last is asked first.
    pub fn welcomed(&mut self, current: &BaseUrl, announced: &[String]) {
        let announced = announced.iter().filter_map(|text| text.parse().ok());
        let mut known: Vec<BaseUrl> = Vec::new();
        for url in announced.chain(self.configured.iter().cloned()).chain([current.clone()]) {
            if !known.contains(&url) {
                known.push(url);
            }
        }
        self.next = known.iter().position(|url| url == current).unwrap_or(0);
        self.known = known;
        self.hint = None;
        self.asked.clear();
        self.rounds = 0;
    }

    /// `current` has fallen silent, and whoever does not speak does not answer either: the next attempt is
    /// another one's. Waiting for it first costs seconds, and a new leader gives a member only so many.
    pub fn fell_silent(&mut self, current: &BaseUrl) {
        if self.known[self.next % self.known.len()] == *current {
            self.next = (self.next + 1) % self.known.len();
        }
    }

    /// A standby named the leader.
    pub fn redirected(&mut self, leader: BaseUrl) {
        self.hint = Some(leader);
    }

    /// Whether at most one was asked since the last welcome.
    fn has_just_begun(&self) -> bool {
        self.rounds <= 1 && self.asked.len() <= 1
    }
}

/// The way to whichever coordinator leads, and the connection on it, if there is one.
#[derive(Debug)]
pub(crate) struct Line {
    route: Route,
    token: Option<Token>,
    /// How long a connection may carry nothing.
    silence: Duration,
    link: Option<Link>,
    /// Whether it was refused since it was last welcomed.
    is_refused: bool,
}

impl Line {
    pub fn new(coordinators: Vec<BaseUrl>, token: Option<Token>, silence: Duration) -> Self {
        Self { route: Route::new(coordinators), token, silence, link: None, is_refused: false }
    }

    /// Begins the next attempt. `jitter` is any number.
    pub async fn open(&mut self, jitter: u64) {
        self.close().await;
        let (url, delay) = self.route.attempt(jitter);
        self.link = Some(Link::open(url, self.token.clone(), delay, self.silence));
    }

    /// What happens on it: nothing, ever, while none is open. May be dropped and asked again at any time.
    pub async fn event(&mut self) -> LinkEvent {
        let Some(link) = &mut self.link else { return pending().await };
        let event = link.event().await;
        if let LinkEvent::Down { end, leader } = &event {
            let Link { url, .. } = link;
            if matches!(end, End::Silent(_)) {
                self.route.fell_silent(url);
            }
            // The first failure is news, the ones that follow from it are not; so is the first refusal.
            let is_first_refusal =
                matches!(end, End::Refused(_)) && !std::mem::replace(&mut self.is_refused, true);
            if is_first_refusal || self.route.has_just_begun() {
                tracing::warn!(%url, why = %end, "not connected");
            } else {
                tracing::debug!(%url, why = %end, "not connected");
            }
            if let Some(leader) = leader {
                self.route.redirected(leader.clone());
            }
            self.link = None;
        }
        event
    }

    /// The one that it is open to serves, and announced these.
    pub fn welcomed(&mut self, announced: &[String]) {
        if let Some(Link { url, .. }) = &self.link {
            tracing::info!(%url, "welcomed");
            self.is_refused = false;
            self.route.welcomed(url, announced);
        }
    }

    /// Every coordinator that it would ask.
    pub fn urls(&self) -> Vec<String> {
        self.route.known.iter().map(ToString::to_string).collect()
    }

    pub fn send(&self, message: FromAgent) {
        if let Some(link) = &self.link {
            link.send(message);
        }
    }

    /// For what is answered later, and on this connection or not at all.
    pub fn answers(&self) -> Option<mpsc::WeakUnboundedSender<Said>> {
        self.link.as_ref().map(Link::answers)
    }

    /// Says what is still to be said, then closes.
    pub async fn close(&mut self) {
        if let Some(link) = self.link.take() {
            link.close().await;
        }
    }

    /// Whom it is connected with, or tries to be.
    #[cfg(feature = "bench")]
    pub fn url(&self) -> Option<&BaseUrl> {
        self.link.as_ref().map(|link| &link.url)
    }
}

/// What happens on a link.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// Open; nothing is said yet.
    Up,
    Message(ToAgent),
    /// Closed, or never opened. Nothing comes after it.
    Down {
        end: End,
        leader: Option<BaseUrl>,
    },
}

/// What an agent says.
#[derive(Debug)]
pub(crate) enum Said {
    Message(FromAgent),
    /// A part of an output, and its turn, which is over once the part is sent: so only a few of them ever
    /// stand between a beat and the coordinator.
    Part {
        part: LogPart,
        _turn: OwnedSemaphorePermit,
    },
}

impl Said {
    fn frame(&self) -> Result<Message, serde_json::Error> {
        Ok(match self {
            Self::Message(message) => Message::text(serde_json::to_string(message)?),
            Self::Part { part, _turn } => Message::binary(part.to_frame()?),
        })
    }
}

/// One attempt and its connection, on a task of its own so that a slow peer delays nobody.
#[derive(Debug)]
struct Link {
    url: BaseUrl,
    events: mpsc::UnboundedReceiver<LinkEvent>,
    outbound: mpsc::UnboundedSender<Said>,
    task: JoinHandle<()>,
}

impl Link {
    /// Waits for `delay`, then connects. `silence` is how long a connection may carry nothing.
    pub fn open(url: BaseUrl, token: Option<Token>, delay: Duration, silence: Duration) -> Self {
        let (events_in, events) = mpsc::unbounded_channel();
        let (outbound, outbound_out) = mpsc::unbounded_channel();
        let to = url.clone();
        let task = tokio::spawn(async move {
            sleep(delay).await;
            let down = match connect(&to, token.as_ref()).await {
                Ok(socket) => {
                    let _ = events_in.send(LinkEvent::Up);
                    let end = talk(socket, outbound_out, &events_in, silence).await;
                    LinkEvent::Down { end, leader: None }
                }
                Err(down) => down,
            };
            let _ = events_in.send(down);
        });
        Self { url, events, outbound, task }
    }

    pub async fn event(&mut self) -> LinkEvent {
        // The task's last word is `Down`; without it, it panicked.
        let gone = || {
            let end = End::Closed("the connection's task ended".into());
            LinkEvent::Down { end, leader: None }
        };
        self.events.recv().await.unwrap_or_else(gone)
    }

    pub fn send(&self, message: FromAgent) {
        // A link that is down says so in its events.
        let _ = self.outbound.send(Said::Message(message));
    }

    fn answers(&self) -> mpsc::WeakUnboundedSender<Said> {
        self.outbound.downgrade()
    }

    /// Says what is still to be said, then closes; it is closed when this returns.
    pub async fn close(self) {
        let Self { outbound, mut task, .. } = self;
        drop(outbound);
        if timeout(CLOSE_TIMEOUT, &mut task).await.is_err() {
            task.abort();
            let _ = task.await;
        }
    }
}

async fn connect(
    url: &BaseUrl,
    token: Option<&Token>,
) -> Result<WebSocketStream<TcpStream>, LinkEvent> {
    let down = |why, leader| LinkEvent::Down { end: End::Closed(why), leader };
    let open = async {
        let stream = TcpStream::connect(url.authority()).await?;
        stream.set_nodelay(true)?;
        let mut request =
            format!("ws://{}{}", url.authority(), paths::AGENT).into_client_request()?;
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, token.authorization());
        }
        Ok(tokio_tungstenite::client_async(request, stream).await?.0)
    };
    match timeout(OPEN_TIMEOUT, open).await {
        Ok(Ok(socket)) => Ok(socket),
        Ok(Err(Error::Http(answer))) => {
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let leader = location.and_then(|location| BaseUrl::of_location(location).ok());
            let next = match answer.status() {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    ": a member's token is needed, in the file that --token-file names"
                }
                _ => "",
            };
            Err(down(format!("it answered {}{next}", answer.status()), leader))
        }
        Ok(Err(error)) => Err(down(error.to_string(), None)),
        Err(_) => Err(down(format!("no answer within {} s", OPEN_TIMEOUT.as_secs()), None)),
    }
}

/// Why a connection ended, or never began.
#[derive(Debug)]
pub(crate) enum End {
    Closed(String),
    /// The coordinator does not take this agent, and said why.
    Refused(String),
    /// Nobody has closed it: it has carried nothing for too long.
    Silent(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(why) | Self::Silent(why) => f.write_str(why),
            Self::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// Carries messages both ways until one side has enough; returns why.
async fn talk(
    mut socket: WebSocketStream<TcpStream>,
    mut outbound: mpsc::UnboundedReceiver<Said>,
    events: &mpsc::UnboundedSender<LinkEvent>,
    silence: Duration,
) -> End {
    let mut heard = Instant::now();
    loop {
        let said = tokio::select! {
            // A process that was stopped has frames waiting: they count before the clock does.
            biased;
            frame = socket.next() => {
                heard = Instant::now();
                match frame {
                    Some(Ok(Message::Close(Some(close)))) if !close.reason.is_empty() => {
                        return End::Refused(close.reason.to_string());
                    }
                    None | Some(Ok(Message::Close(_))) => {
                        return End::Closed("closed by the coordinator".into());
                    }
                    Some(Err(error)) => return End::Closed(error.to_string()),
                    Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                        Ok(message) => drop(events.send(LinkEvent::Message(message))),
                        // A coordinator of a later version may say more than this agent knows.
                        Err(error) => tracing::warn!(%error, "message not understood"),
                    },
                    Some(Ok(_)) => {}
                }
                continue;
            }
            () = sleep_until(heard + silence) => {
                return End::Silent(format!("silent for {silence:?}"));
            }
            said = outbound.recv() => said,
        };
        let Some(said) = said else {
            // The peer may be gone; a closing that fails changes nothing.
            let _ = socket.close(None).await;
            return End::Closed("closed by this agent".into());
        };
        let frame = match said.frame() {
            Ok(frame) => frame,
            Err(error) => {
                return End::Closed(format!("a message could not be written: {error}"));
            }
        };
        match timeout(silence, socket.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return End::Closed(error.to_string()),
            Err(_) => return End::Silent(format!("took nothing for {silence:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(port: u16) -> BaseUrl {
        format!("http://127.0.0.1:{port}").parse().unwrap()
    }

    fn delays(route: &mut Route, jitter: u64) -> Vec<u64> {
        (0..6).map(|_| u64::try_from(route.attempt(jitter).1.as_millis()).unwrap()).collect()
    }

    #[test]
    fn the_first_attempt_is_immediate_and_none_waits_longer_than_half_a_second() {
        let mut route = Route::new(vec![url(1)]);
        assert_eq!(delays(&mut route, 0), [0, 25, 50, 100, 200, 250]);
        route.welcomed(&url(1), &[]);
        // The most jitter that 50, 100, … allow: half of each, a multiple of none of the others.
        assert_eq!(route.attempt(25).1, Duration::ZERO);
        assert_eq!(route.attempt(25).1, Duration::from_millis(50));
        for _ in 0..100 {
            assert!(route.attempt(250).1 <= Duration::from_millis(LONGEST_BACK_OFF_MS));
        }
    }

    #[test]
    fn attempts_go_round_beginning_with_whoever_served() {
        let mut route = Route::new(vec![url(1), url(2), url(3)]);
        let asked = |route: &mut Route| route.attempt(0).0;
        assert_eq!([asked(&mut route), asked(&mut route)], [url(1), url(2)]);
        route.welcomed(&url(2), &[]);
        assert_eq!([0; 4].map(|_| asked(&mut route)), [url(2), url(3), url(1), url(2)]);
    }

    /// Red where whoever served last is asked first whatever it ended by: a stopped coordinator takes the
    /// connection, and says nothing on it for two more seconds.
    #[test]
    fn who_fell_silent_is_asked_last() {
        let mut route = Route::new(vec![url(1), url(2), url(3)]);
        route.welcomed(&url(2), &[]);
        route.fell_silent(&url(2));
        assert_eq!([0; 3].map(|_| route.attempt(0).0), [url(3), url(1), url(2)]);
        let mut alone = Route::new(vec![url(1)]);
        alone.welcomed(&url(1), &[]);
        alone.fell_silent(&url(1));
        assert_eq!(alone.attempt(0), (url(1), Duration::ZERO));
    }

    #[test]
    fn announced_coordinators_come_first_and_configured_ones_stay() {
        let mut route = Route::new(vec![url(1)]);
        route.welcomed(&url(1), &[url(2).to_string(), "nonsense".into(), url(3).to_string()]);
        assert_eq!([0; 4].map(|_| route.attempt(0).0), [url(1), url(2), url(3), url(1)]);
    }

    /// Red where the pause is between attempts.
    #[test]
    fn everybody_is_asked_before_there_is_a_pause() {
        let mut route = Route::new(vec![url(1), url(2), url(3)]);
        assert_eq!(delays(&mut route, 0), [0, 0, 0, 25, 0, 0]);
    }

    /// Red where a hint is followed whoever was asked before: the leader that it names has just died, and
    /// standbys say so only when its lease is over.
    #[test]
    fn a_standbys_hint_is_followed_at_once_and_not_twice_in_a_round() {
        let ms = Duration::from_millis;
        let mut route = Route::new(vec![url(1), url(2)]);
        assert_eq!(route.attempt(0), (url(1), ms(0)));
        route.redirected(url(9));
        assert_eq!(route.attempt(0), (url(9), ms(0)));
        assert_eq!(route.attempt(0), (url(2), ms(0)));
        route.redirected(url(9));
        assert_eq!(route.attempt(0), (url(9), ms(25)), "in the next round, and its first");
        assert_eq!(
            [0; 3].map(|_| route.attempt(0)),
            [(url(1), ms(0)), (url(2), ms(0)), (url(1), ms(50))]
        );
    }

    /// Two that name each other must not keep an agent busy.
    #[test]
    fn two_that_name_each_other_are_asked_once_a_round() {
        let mut route = Route::new(vec![url(1), url(2)]);
        let mut waited = Vec::new();
        for _ in 0..3 {
            for other in [2, 1] {
                waited.push(route.attempt(0).1.as_millis());
                route.redirected(url(other));
            }
        }
        assert_eq!(waited, [0, 0, 25, 0, 50, 0]);
    }
}
