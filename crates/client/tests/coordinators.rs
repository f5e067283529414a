//! The client against small servers in this process: each answers from a script and notes what it was
//! asked, so that order and number of the tries can be checked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use steadfast_api::{CoordinatorRole, PlannedLeaveRequest};
use steadfast_client::{Client, ClientError, JobFormat, ListQuery, Token};
use steadfast_model::{EvaluationStatus, JobId, JobStatus};
use tokio::net::TcpListener;

/// What a server does with a request.
#[derive(Clone)]
enum Say {
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Takes the request and closes the connection.
    HangUp,
}

impl Say {
    fn json(status: u16, body: &str) -> Self {
        Self::Answer(status, Vec::new(), body.into())
    }
}

struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers with the script in order, and with its last line from then on.
    async fn start(script: Vec<Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (noted, script) = (Arc::clone(&noted), script.clone());
                let service =
                    service_fn(move |request| answer(request, Arc::clone(&noted), script.clone()));
                tokio::spawn(async move {
                    // A connection that the script breaks off ends with an error; that is its purpose.
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(
    request: Request<Incoming>,
    noted: Arc<Mutex<Vec<String>>>,
    script: Vec<Say>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut line = format!("{} {} {}", head.method, head.uri, String::from_utf8_lossy(&body));
    if let Some(shown) = head.headers.get("authorization") {
        line = format!("({}) {line}", shown.to_str().unwrap());
    }
    let position = {
        let mut noted = noted.lock().unwrap();
        noted.push(line.trim_end().to_owned());
        noted.len() - 1
    };
    match script.get(position).or(script.last()).unwrap() {
        Say::HangUp => Err(std::io::Error::other("hangs up")),
        Say::Answer(status, headers, body) => {
            let mut response = Response::builder().status(*status);
            for (name, value) in headers {
                response = response.header(*name, value);
            }
            Ok::<_, Infallible>(response.body(Full::from(body.clone())).unwrap())
                .map_err(|never| match never {})
        }
    }
}

/// A port that nobody listens on.
async fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_503_and_a_closed_port_lead_to_the_next_coordinator() {
    let loading = Server::start(vec![Say::json(503, r#"{"status":"fail","message":"loading"}"#)]);
    let (loading, leader) = (loading.await, Server::start(vec![Say::json(200, "[]")]).await);
    let client = Client::new([&closed().await, &loading.url, &leader.url]).unwrap();

    assert_eq!(client.members().await.unwrap(), []);
    assert_eq!(loading.asked(), ["GET /members"]);

    client.members().await.unwrap();
    assert_eq!(loading.asked().len(), 1, "whoever answered last is asked first");
    assert_eq!(leader.asked().len(), 2);
}

/// Red where 408 is an answer like any other, or is taken for 503: a second job.
#[tokio::test]
async fn what_is_in_doubt_is_asked_for_again_only_where_twice_is_once() {
    let doubt = Say::json(408, r#"{"status":"fail","message":"it may or may not have been done"}"#);
    let server = Server::start(vec![doubt.clone(), Say::json(200, "[]")]).await;
    let client = Client::new([&server.url]).unwrap();
    assert_eq!(client.members().await.unwrap(), []);
    assert_eq!(server.asked().len(), 2);

    let server = Server::start(vec![doubt]).await;
    let client = Client::new([&server.url]).unwrap();
    let error = client.submit_job("{}", JobFormat::Json, None, false).await.unwrap_err();
    assert!(error.to_string().contains("it may or may not have been done"), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn all_are_asked_again_while_one_of_them_loads() {
    let busy = Say::Answer(503, vec![("retry-after", "0".into())], String::new());
    let server = Server::start(vec![busy.clone(), busy, Say::json(200, "[]")]).await;
    let client = Client::new([&server.url]).unwrap();

    client.running_jobs(ListQuery::default()).await.unwrap();
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_307_is_followed_with_its_method_body_and_query() {
    let leader = Server::start(vec![Say::json(200, r#"{"jobId":"7","jobName":"n"}"#)]).await;
    let location = format!("{}/submit-job?jobName=n", leader.url);
    let standby = Say::Answer(307, vec![("location", location)], String::new());
    let standby = Server::start(vec![standby]).await;
    let client = Client::new([&standby.url]).unwrap();

    let answer = client.submit_job("env {}", JobFormat::Hocon, Some("n"), false).await.unwrap();
    assert_eq!(answer.job_id, Some(JobId::new(7)));
    assert_eq!(leader.asked(), ["POST /submit-job?jobName=n env {}"]);
}

#[tokio::test]
async fn two_standbys_that_name_each_other_do_not_keep_the_client_for_ever() {
    let (a, b) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    let urls = [&a, &b].map(|socket| format!("http://{}", socket.local_addr().unwrap()));
    for (listener, other) in [(a, urls[1].clone()), (b, urls[0].clone())] {
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let other = other.clone();
                let service = service_fn(move |_: Request<Incoming>| {
                    let to_other = Response::builder().status(307).header("location", &other);
                    async move { to_other.body(Full::<Bytes>::default()) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
    }
    let error = Client::new([&urls[0]]).unwrap().members().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_refusal_carries_every_problem_and_is_not_repeated() {
    let body = r#"{"status":"fail","message":"the job file has 1 problem",
        "details":[{"file":null,"line":3,"column":5,"key":"env.job.nmae","message":"unknown key"}]}"#;
    let server = Server::start(vec![Say::json(400, body)]).await;
    let client = Client::new([&server.url]).unwrap();

    let error = client.submit_job("{}", JobFormat::Json, None, true).await.unwrap_err();
    assert!(error.to_string().starts_with(&server.url), "{error}");
    assert!(error.to_string().ends_with("3:5: env.job.nmae: unknown key"), "{error}");
    let ClientError::Refused { status, body, .. } = error else { panic!("{error}") };
    assert_eq!((status.as_u16(), body.details.len()), (400, 1));
    assert_eq!(server.asked(), ["POST /submit-job?dryRun=true {}"]);
}

#[tokio::test]
async fn unreachable_names_everybody_and_the_next_step() {
    let urls = [closed().await, closed().await];
    let error = Client::new(&urls).unwrap().overview().await.unwrap_err();
    let text = error.to_string();
    let ClientError::Unreachable { tried } = error else { panic!("{text}") };
    assert_eq!(tried.iter().map(|(url, _)| url.to_string()).collect::<Vec<_>>(), urls);
    assert!(text.contains("refused") && text.contains("--coordinators"), "{text}");
}

#[tokio::test]
async fn a_submission_whose_answer_is_lost_is_not_sent_twice() {
    let server = Server::start(vec![Say::HangUp]).await;
    let client = Client::new([&server.url]).unwrap();

    let error = client.submit_job("{}", JobFormat::Json, None, false).await.unwrap_err();
    assert!(matches!(error, ClientError::Interrupted { .. }), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_stop_whose_answer_is_lost_is_sent_again() {
    let answer = r#"{"jobId":"7","jobStatus":"CANCELING","message":"stopping"}"#;
    let server = Server::start(vec![Say::HangUp, Say::json(202, answer)]).await;
    let client = Client::new([&server.url]).unwrap();

    let answer = client.stop_job(JobId::new(7)).await.unwrap();
    assert_eq!(answer.job_status, JobStatus::Canceling);
    assert_eq!(server.asked(), [r#"POST /stop-job {"jobId":"7"}"#; 2]);
}

#[tokio::test]
async fn a_drain_whose_answer_is_lost_is_sent_again_as_the_same_request() {
    const MEMBER: &str = "23cc7ea6-6374-4f2b-8a33-df75b5e58f52";
    let answer = format!(
        r#"{{"memberUuid":"{MEMBER}","requestId":"r-1","actor":"on-call","reason":"new kernel",
            "registered":"2026-11-30T09:31:02.123Z","expires":"2026-11-30T09:41:02.123Z","draining":true}}"#
    );
    let server = Server::start(vec![Say::HangUp, Say::json(200, &answer)]).await;
    let client = Client::new([&server.url]).unwrap();
    let request = PlannedLeaveRequest {
        request_id: "r-1".parse().unwrap(),
        reason: "new kernel".into(),
        valid_seconds: None,
    };

    let drained = client.drain(MEMBER.parse().unwrap(), &request).await.unwrap();
    assert!(drained.draining);
    let body = r#"{"reason":"new kernel","requestId":"r-1"}"#;
    assert_eq!(server.asked(), vec![format!("POST /members/{MEMBER}/drain {body}"); 2]);

    client.plan_leave(MEMBER.parse().unwrap(), &request).await.unwrap();
    let asked = server.asked().pop();
    assert_eq!(asked, Some(format!("POST /members/{MEMBER}/planned-leave {body}")));
}

#[tokio::test]
async fn the_token_is_shown_to_every_coordinator_that_is_asked() {
    let leader = Server::start(vec![Say::json(200, "[]")]).await;
    let location = format!("{}/members", leader.url);
    let standby = Say::Answer(307, vec![("location", location)], String::new());
    let standby = Server::start(vec![standby]).await;
    let client = Client::new([&standby.url]).unwrap().with_token(&Token::new("s3cret").unwrap());

    client.members().await.unwrap();
    for server in [standby, leader] {
        assert_eq!(server.asked(), ["(Bearer s3cret) GET /members"]);
    }
}

#[tokio::test]
async fn a_page_that_is_no_coordinators_says_so() {
    let server = Server::start(vec![Say::json(200, "<html>"), Say::json(404, "<html>")]).await;
    let client = Client::new([&server.url]).unwrap();
    for _ in 0..2 {
        let error = client.overview().await.unwrap_err();
        assert!(matches!(error, ClientError::Unexpected { .. }), "{error}");
        assert!(error.to_string().contains("the overview"), "{error}");
    }
}

#[tokio::test]
async fn each_call_has_its_path() {
    let server = Server::start(vec![Say::json(418, r#"{"status":"fail","message":"no"}"#)]).await;
    let client = Client::new([&server.url]).unwrap();
    let job = JobId::new(7);
    let query = ListQuery {
        page: Some(2),
        rows: Some(10),
        evaluation_status: Some(EvaluationStatus::Unknown),
    };
    client.overview().await.unwrap_err();
    client.running_jobs(query).await.unwrap_err();
    client.finished_jobs(Some(JobStatus::Failed), ListQuery::default()).await.unwrap_err();
    client.job_info(job).await.unwrap_err();
    client.recovery_episodes(job).await.unwrap_err();
    client.explain(job).await.unwrap_err();
    assert!(!client.health_ready().await.unwrap());
    assert_eq!(
        server.asked(),
        [
            "GET /overview",
            "GET /running-jobs?page=2&rows=10&evaluationStatus=UNKNOWN",
            "GET /finished-jobs/FAILED",
            "GET /job-info/7",
            "GET /job-info/7/recovery-episodes",
            "GET /job-info/7/explain",
            "GET /health/ready",
        ]
    );
}

/// Red where only a 200 is read: whoever leads is then not known to.
#[tokio::test]
async fn who_leads_is_told_also_where_its_store_is_full() {
    let body = r#"{"status": "fail", "message": "the store is full", "role": "leader",
        "url": "http://127.0.0.1:1", "version": "0.1.0", "revision": 7, "leader": "http://127.0.0.1:1",
        "since": "2026-11-30T09:31:02.123Z", "epoch": 3, "coordinators": []}"#;
    let (full, loading) = (Server::start(vec![Say::json(503, body)]).await, closed().await);
    let client = Client::new([&full.url, &loading]).unwrap();
    let standings = client.coordinators().await.unwrap();
    let leader = standings[0].readiness.as_ref().unwrap();
    assert_eq!((leader.role, leader.revision), (CoordinatorRole::Leader, 7));
    assert_eq!(standings[0].error.as_deref(), Some("the store is full"));
    assert!(standings[1].readiness.is_none() && standings[1].error.is_some());
    assert!(!client.health_ready().await.unwrap());
}

#[tokio::test]
async fn readiness_is_whether_one_of_them_leads() {
    let ready = Server::start(vec![Say::json(200, "{}")]).await;
    let (loading, nobody) = (Server::start(vec![Say::json(503, "{}")]).await, closed().await);

    let client = Client::new([&nobody, &loading.url, &ready.url]).unwrap();
    assert!(client.health_ready().await.unwrap());
    let client = Client::new([&nobody, &loading.url]).unwrap();
    assert!(!client.health_ready().await.unwrap());
    let error = Client::new([&nobody]).unwrap().health_ready().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[test]
fn a_client_needs_a_usable_url() {
    assert!(matches!(Client::new::<&str>([]), Err(ClientError::NoCoordinators)));
    assert!(matches!(Client::new(["https://localhost:1"]), Err(ClientError::Url(_))));
}
